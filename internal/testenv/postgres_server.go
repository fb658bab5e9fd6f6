//go:build unix

package testenv

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PGConfig describes a private server.
type PGConfig struct {
	// Version is the major version. Default [DefaultPostgres].
	Version int
	// Settings are added to postgresql.conf, and win over this package's.
	Settings map[string]string
	// SyncReplica makes the server's first [PG.Standby] a synchronous one.
	SyncReplica bool
}

// StartPostgres starts a server for this test alone; it is gone after the
// test. It runs without fsync unless Settings say otherwise: what a killed
// process has written is the system's and survives it; only a crash of the
// machine, which no test here plays, needs fsync. Benches set fsync on.
func StartPostgres(t testing.TB, cfg PGConfig) *PG {
	t.Helper()
	if cfg.Version == 0 {
		cfg.Version = DefaultPostgres
	}
	if _, err := findPostgres(cfg.Version); err != nil {
		missingPostgres(t, cfg.Version)
	}
	pg, err := newPostgres(cfg.Version, cfg.Settings)
	if err != nil {
		t.Fatalf("private PostgreSQL %d: %v", cfg.Version, err)
	}
	pg.syncReplica = cfg.SyncReplica
	pg.adopt(t, pg.freeSharedMemory)
	pg.Start()
	return pg
}

// newPostgres makes the data folder of a server on a free port.
func newPostgres(version int, settings map[string]string) (*PG, error) {
	p, err := preparePostgres(version)
	if err != nil {
		return nil, err
	}
	template, err := initialized.get(version, p.bin)
	if err != nil {
		return nil, err
	}
	if err := copyFolder(template, p.data()); err != nil {
		return nil, err
	}
	return p, p.configure(settings)
}

// preparePostgres makes everything but the data folder.
func preparePostgres(version int) (*PG, error) {
	bin, err := findPostgres(version)
	if err != nil {
		return nil, err
	}
	if bin, err = reachable(bin); err != nil {
		return nil, err
	}
	dir, err := newDir("postgres")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	pg := &PG{
		Version: version,
		bin:     bin,
		admin: url.URL{
			Scheme: "postgres", User: url.UserPassword("postgres", Password),
			Host: loopback(port), Path: "/postgres", RawQuery: "sslmode=disable",
		},
	}
	pg.server = server{
		name:  "PostgreSQL " + strconv.Itoa(version),
		proc:  &process{dir: dir, args: []string{filepath.Join(bin, "postgres"), "-D", filepath.Join(dir, "data")}},
		ready: pg.ping,
		quit:  syscall.SIGINT, // "fast" shutdown
	}
	return pg, nil
}

func (p *PG) data() string { return filepath.Join(p.proc.dir, "data") }

// configure appends to postgresql.conf; a later line wins over an earlier one.
func (p *PG) configure(settings map[string]string) error {
	all := map[string]string{
		"listen_addresses":           "127.0.0.1",
		"port":                       strconv.Itoa(p.Port()),
		"unix_socket_directories":    "",
		"dynamic_shared_memory_type": "mmap", // in the data folder: a killed server leaves nothing elsewhere
		"fsync":                      "off",
		"shared_buffers":             "64MB",
		"max_connections":            "100",
		"wal_level":                  "logical",
		"max_wal_size":               "1GB",
		"wal_keep_size":              "256MB", // a standby may connect late
		"hot_standby":                "on",
		"autovacuum_naptime":         "10s",
		"timezone":                   "UTC",
		"log_timezone":               "UTC",
		"log_line_prefix":            "%m [%p] %u@%d ",
	}
	maps.Copy(all, settings)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(all[name], "'", "''"))
	}
	file := filepath.Join(p.data(), "postgresql.conf")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return writeFile(file, string(old)+"\n"+b.String(), 0o600)
}

func (p *PG) ping() error {
	return connected(p.Admin(), func(ctx context.Context, conn *pgx.Conn) error { return conn.Ping(ctx) })
}

// freeSharedMemory removes the small System V segment with which PostgreSQL
// guards its data folder. A killed server leaves it behind, and would take it
// over at its next start, which never comes for a folder that is removed.
func (p *PG) freeSharedMemory() error {
	b, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return nil //nolint:nilerr // stopped in good order
	}
	lines := strings.Split(string(b), "\n")
	if len(lines) < 7 {
		return nil
	}
	fields := strings.Fields(lines[6])
	if len(fields) < 2 {
		return nil
	}
	id := fields[len(fields)-1]
	if out, err := exec.Command("ipcrm", "-m", id).CombinedOutput(); err != nil && !strings.Contains(string(out), "invalid id") {
		return fmt.Errorf("ipcrm -m %s: %w: %s", id, err, out)
	}
	return nil
}
