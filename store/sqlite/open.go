package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

const migrateUp = `run "postrider migrate up"`

// Open implements [relay.Store].
func (s *Store) Open(ctx context.Context) (relay.Server, error) {
	name := s.cfg.file()
	switch info, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		err = relay.Hint(fmt.Errorf("database file %q: missing", name), migrateUp+" to make it, or correct the name")
		return relay.Server{}, relay.Misconfigured(err)
	case err != nil:
		return relay.Server{}, fmt.Errorf("database file %q: %w", name, err)
	case info.IsDir():
		return relay.Server{}, relay.Misconfigured(fmt.Errorf("database file %q: a directory", name))
	}
	server := relay.Server{}
	before := s.seen()
	err := s.read(ctx, func(tx *sql.Tx) error {
		server = relay.Server{}
		if err := tx.QueryRowContext(ctx, selectVersion).Scan(&server.Describe); err != nil {
			return err
		}
		server.Describe = "SQLite " + server.Describe
		if err := checkMode(ctx, tx); err != nil {
			return err
		}
		version, err := s.checkTables(ctx, tx)
		if err != nil {
			return err
		}
		server.Schema = version
		_, err = s.witness(ctx, tx, before)
		return err
	})
	if err == nil {
		// Rights of the file and of its directory show only in a write.
		err = s.write(ctx, false, func(*sql.Tx) error { return nil })
	}
	if err != nil {
		return relay.Server{}, s.refuse(err)
	}
	server.Identity = s.identity()
	return server, nil
}

// refuse marks what no waiting heals. Anything else is a file that is busy or
// on a disk that does not answer.
func (s *Store) refuse(err error) error {
	if relay.IsMisconfigured(err) {
		return err
	}
	err = s.explain("open outbox", err)
	switch errorCode(err) & 0xff {
	case sqlite3.SQLITE_NOTADB:
		return relay.Misconfigured(relay.Hint(err, "the file is not a SQLite database, or it is encrypted"))
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		return relay.Misconfigured(relay.Hint(err, "the relay must be able to write the file and its directory"))
	}
	return err
}

// checkMode refuses a file that is not in WAL mode, though each connection has
// asked for it: on a network file system or another VFS without shared memory.
// A reader there locks out the application's writers.
func checkMode(ctx context.Context, tx *sql.Tx) error {
	var mode string
	if err := tx.QueryRowContext(ctx, selectMode).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		err := fmt.Errorf("journal mode %q: WAL is not available", mode)
		return relay.Misconfigured(relay.Hint(err, "keep the database on a local file system"))
	}
	return nil
}

// checkTables finds out whether the tables are there, are ours and of a version
// that this program can serve, and returns the version, or 0 if the tables do
// not say it.
func (s *Store) checkTables(ctx context.Context, tx *sql.Tx) (int, error) {
	objects, err := readObjects(ctx, tx)
	if err != nil {
		return 0, err
	}
	prefix := s.cfg.Names.Prefix
	if _, ok := objects[s.cfg.Names.Table]; !ok {
		err := fmt.Errorf("table %q: missing in %s", s.cfg.Names.Table, s.cfg.file())
		return 0, relay.Misconfigured(relay.Hint(err, migrateUp))
	}
	if err := s.checkOutbox(ctx, tx, objects); err != nil {
		return 0, err
	}
	for _, suffix := range []string{"_delivered", "_dead", "_relay", "_lane", "_control", "_hot", "_held", "_retry", "_scheduled"} {
		if _, ok := objects[prefix+suffix]; !ok {
			err := fmt.Errorf("table or index %q: missing in %s", prefix+suffix, s.cfg.file())
			return 0, relay.Misconfigured(relay.Hint(err, migrateUp))
		}
	}
	if _, ok := objects[prefix+"_version"]; !ok {
		return 0, nil
	}
	var version int
	if err := tx.QueryRowContext(ctx, s.sql(selectSchemaVersion)).Scan(&version); err != nil {
		return 0, err
	}
	const want = outbox.SchemaVersion
	if version < want-1 || version > want+1 {
		err := fmt.Errorf("schema version %d: this program serves %d to %d", version, max(want-1, 1), want+1)
		hint := migrateUp
		if version > want {
			hint = "use a newer postrider"
		}
		return version, relay.Misconfigured(relay.Hint(err, hint))
	}
	return version, nil
}

// checkOutbox tells our table from another one of the same name.
func (s *Store) checkOutbox(ctx context.Context, tx *sql.Tx, objects map[string]string) error {
	table := s.cfg.Names.Table
	have, err := readStrings(ctx, tx, selectColumns, table)
	if err != nil {
		return err
	}
	for column := range strings.SplitSeq(moved, ",") {
		if column = strings.TrimSpace(column); !slices.Contains(have, column) {
			err := fmt.Errorf("table %q: not Postrider's: it has no column %q", table, column)
			return relay.Misconfigured(relay.Hint(err, `choose another name with --prefix, or map it with "postrider adopt"`))
		}
	}
	if !strings.Contains(strings.ToUpper(objects[table]), "AUTOINCREMENT") {
		err := fmt.Errorf("table %q: its ids come back after a delete: id is not AUTOINCREMENT", table)
		return relay.Misconfigured(relay.Hint(err, `make the table with "postrider migrate up"`))
	}
	return nil
}

func readObjects(ctx context.Context, tx *sql.Tx) (map[string]string, error) {
	rows, err := tx.QueryContext(ctx, selectObjects)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	objects := map[string]string{}
	for rows.Next() {
		var name, text string
		if err := rows.Scan(&name, &text); err != nil {
			return nil, err
		}
		objects[name] = text
	}
	return objects, rows.Err()
}

func readStrings(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]string, error) {
	return collect(ctx, tx, query, args, func(rows *sql.Rows) (v string, err error) { return v, rows.Scan(&v) })
}

func readInts(ctx context.Context, tx *sql.Tx, query string, args ...any) ([]int64, error) {
	return collect(ctx, tx, query, args, func(rows *sql.Rows) (v int64, err error) { return v, rows.Scan(&v) })
}

func collect[T any](ctx context.Context, tx *sql.Tx, query string, args []any, scan func(*sql.Rows) (T, error)) ([]T, error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	var all []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
