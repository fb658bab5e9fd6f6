package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Migrator works on the tables of one outbox.
type Migrator struct {
	db      *sql.DB
	dialect outbox.Dialect
	names   outbox.Names
	options outbox.MigrationOptions
	record  *record
	// wait is how long a run waits for another one. A test shortens it.
	wait time.Duration
}

// New returns a migrator over an open database, which the caller closes.
func New(db *sql.DB, dialect outbox.Dialect, names outbox.Names, options outbox.MigrationOptions) *Migrator {
	names = names.WithDefaults(dialect)
	return &Migrator{
		db: db, dialect: dialect, names: names, options: options,
		record: &record{dialect: dialect, names: names},
		wait:   time.Minute,
	}
}

// State is one migration and whether it was applied.
type State struct {
	Version int64
	Name    string
	Applied bool
}

// provider is goose over our migrations. skip leaves the inbox out on the way up,
// keepInbox on the way down.
func (m *Migrator) provider(skip []int64, keepInbox bool) (*goose.Provider, error) {
	dir, err := outbox.Migrations(m.dialect, m.names, m.options)
	if err != nil {
		return nil, err
	}
	if dir, err = m.guarded(dir, keepInbox); err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectCustom, m.db, dir,
		goose.WithStore(m.record), goose.WithDisableGlobalRegistry(true), goose.WithExcludeVersions(skip))
}

// inboxVersion is the migration of the inbox. Several outboxes of one schema
// share an inbox, as long as it is called the same.
const inboxVersion = 2

// Up makes or changes the tables and returns the names of the migrations that
// it ran; none if there was nothing to do.
func (m *Migrator) Up(ctx context.Context) (ran []string, err error) {
	err = m.exclusively(ctx, func() error {
		ran, err = m.up(ctx)
		return err
	})
	return ran, m.explain(ctx, err)
}

func (m *Migrator) up(ctx context.Context) ([]string, error) {
	for last := -1; ; {
		f, err := m.look(ctx)
		if err != nil {
			return nil, err
		}
		applied, err := m.record.versions(ctx, m.db, f.record)
		if err != nil {
			return nil, err
		}
		if err := m.refuseForeign(f, applied); err != nil {
			return nil, err
		}
		var skip []int64
		if f.inboxOurs && !applied[inboxVersion] {
			skip = []int64{inboxVersion}
		}
		p, err := m.provider(skip, false)
		if err != nil {
			return nil, err
		}
		results, err := p.Up(ctx)
		if err == nil {
			return namesOf(results), nil
		}
		// On SQLite another run may have been faster: the record's primary key or
		// the table it made stopped this one. If it got further, look again.
		if m.dialect != outbox.SQLite || len(applied) == last {
			return nil, reason(err)
		}
		last = len(applied)
	}
}

// refuseForeign refuses to touch tables that no record of ours speaks of.
func (m *Migrator) refuseForeign(f found, applied map[int64]bool) error {
	if len(applied) > 0 {
		return nil
	}
	switch {
	case f.version:
		return relay.Hint(
			fmt.Errorf("the tables of prefix %q were made by another tool than postrider migrate", m.names.Prefix),
			"go on with that tool: postrider migrate print --format goose|flyway|atlas|sql")
	case len(f.tables) > 0:
		return relay.Hint(
			fmt.Errorf("%s in schema %s is not a table of Postrider's", strings.Join(f.tables, ", "), m.names.Schema),
			"choose other names: --prefix my_outbox; an outbox that a team already has is not migrated but adopted")
	case f.inbox && !f.inboxOurs:
		return relay.Hint(
			fmt.Errorf("%s in schema %s is not an inbox of Postrider's", m.names.Inbox, m.names.Schema),
			"choose another schema: --schema postrider")
	}
	return nil
}

// Down removes the tables. It refuses while an event is undelivered or dead. An
// inbox that remembers something stays: the consumers of the schema's other
// outboxes share it, and without it they would apply events again.
func (m *Migrator) Down(ctx context.Context) (ran []string, err error) {
	err = m.exclusively(ctx, func() error {
		ran, err = m.down(ctx)
		return err
	})
	return ran, m.explain(ctx, err)
}

func (m *Migrator) down(ctx context.Context) ([]string, error) {
	f, err := m.look(ctx)
	if err != nil {
		return nil, err
	}
	applied, err := m.record.versions(ctx, m.db, f.record)
	if err != nil {
		return nil, err
	}
	if len(applied) == 0 {
		if err := m.refuseForeign(f, applied); err != nil {
			return nil, err
		}
		return nil, nil
	}
	if applied[1] {
		if err := m.refuseLoss(ctx); err != nil {
			return nil, err
		}
	}
	keepInbox := false
	if applied[inboxVersion] && f.inboxOurs {
		rows, err := m.count(ctx, m.db, "inbox")
		if err != nil {
			return nil, err
		}
		keepInbox = rows > 0
	}
	p, err := m.provider(nil, keepInbox)
	if err != nil {
		return nil, err
	}
	results, err := p.DownTo(ctx, 0)
	if err != nil {
		if strings.Contains(err.Error(), "events came meanwhile") || strings.Contains(err.Error(), "events_came_meanwhile") {
			return nil, errLoss("an event")
		}
		return nil, reason(err)
	}
	_, err = m.db.ExecContext(ctx, m.names.Expand(m.dialect, "DROP TABLE {{outbox_schema}}"))
	if err != nil {
		return nil, fmt.Errorf("record of migrations: %w", err)
	}
	return namesOf(results), nil
}

func (m *Migrator) refuseLoss(ctx context.Context) error {
	pending, err := m.count(ctx, m.db, "outbox")
	if err != nil {
		return err
	}
	dead, err := m.count(ctx, m.db, "dead")
	if err != nil {
		return err
	}
	if pending+dead > 0 {
		return errLoss(fmt.Sprintf("%d undelivered and %d dead events", pending, dead))
	}
	return nil
}

func errLoss(what string) error {
	return relay.Hint(fmt.Errorf("%s would be lost with the tables; nothing was changed", what),
		`deliver them ("postrider relay --once") or remove them from the tables first`)
}

// Status lists the migrations.
func (m *Migrator) Status(ctx context.Context) ([]State, error) {
	f, err := m.look(ctx)
	if err != nil {
		return nil, err
	}
	applied, err := m.record.versions(ctx, m.db, f.record)
	if err != nil {
		return nil, err
	}
	p, err := m.provider(nil, false)
	if err != nil {
		return nil, err
	}
	var states []State
	for _, s := range p.ListSources() {
		done := applied[s.Version] || s.Version == inboxVersion && f.inboxOurs
		states = append(states, State{Version: s.Version, Name: baseName(s.Path), Applied: done})
	}
	return states, nil
}

func namesOf(results []*goose.MigrationResult) []string {
	names := make([]string, len(results))
	for i, r := range results {
		names[i] = baseName(r.Source.Path)
	}
	return names
}

func baseName(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// reason unwraps goose's report of a run: what broke, and in which migration.
func reason(err error) error {
	if partial, ok := errors.AsType[*goose.PartialError](err); ok && partial.Failed != nil {
		return fmt.Errorf("migration %s: %w", baseName(partial.Failed.Source.Path), partial.Err)
	}
	return err
}
