package outbox

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// SchemaVersion is the version of the outbox's tables that this release writes
// and reads. The tables record theirs in <prefix>_version, whatever tool made
// them; a relay runs with one version less and one more.
const SchemaVersion = 1

//go:embed migrations/*/*.sql
var files embed.FS

// Doorbell says whether migrations install the trigger that wakes an idle relay
// (PostgreSQL only).
type Doorbell string

// The choices for the doorbell.
const (
	// DoorbellAuto installs it unless the server allows PREPARE TRANSACTION,
	// which NOTIFY forbids.
	DoorbellAuto Doorbell = "auto"
	DoorbellOn   Doorbell = "on"
	DoorbellOff  Doorbell = "off"
)

// MigrationOptions are choices made when the tables are created. The zero value
// works.
type MigrationOptions struct {
	// Doorbell: see its values. Default DoorbellAuto.
	Doorbell Doorbell
	// InboxOnly leaves the outbox out, for a database that only consumes.
	InboxOnly bool
}

func (o MigrationOptions) withDefaults() MigrationOptions {
	if o.Doorbell == "" {
		o.Doorbell = DoorbellAuto
	}
	return o
}

func (o MigrationOptions) validate() error {
	switch o.Doorbell {
	case DoorbellAuto, DoorbellOn, DoorbellOff:
		return nil
	}
	return fmt.Errorf("doorbell %q: not one of auto, on, off", string(o.Doorbell))
}

// Migrations returns the migrations of a dialect with the names filled in, as a
// flat directory in the format of goose: NNNNN_name.sql. Each is one
// transaction, gives up after 3 s of waiting for a lock (PostgreSQL), and can
// be run again when it did.
func Migrations(d Dialect, n Names, o MigrationOptions) (fs.FS, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if err := n.Validate(d); err != nil {
		return nil, err
	}
	dir := path.Join("migrations", string(d))
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("embedded migrations of %s: %w", d, err)
	}
	made := memoryDir{}
	for _, entry := range entries {
		if o.InboxOnly && !strings.HasSuffix(entry.Name(), "_inbox.sql") {
			continue
		}
		text, err := fs.ReadFile(files, path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("embedded migration %s of %s: %w", entry.Name(), d, err)
		}
		// The option goes in first: it cannot stand in a name, so no name is
		// mistaken for it.
		sql := strings.ReplaceAll(string(text), "{{doorbell}}", string(o.Doorbell))
		made[entry.Name()] = []byte(n.Expand(d, sql))
	}
	return made, nil
}
