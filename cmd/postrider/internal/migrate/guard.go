package migrate

import (
	"io"
	"io/fs"
	"strings"
	"testing/fstest"

	"github.com/postrider/postrider/outbox"
)

// The first statement of going down locks writers out and looks once more, in
// the transaction that drops the tables: an event that was committed after the
// first look must not be dropped with them.

// guardPostgres raises an error that Down recognises by its text.
const guardPostgres = `
-- +goose StatementBegin
DO $guard$ BEGIN
    SET LOCAL lock_timeout = '3s';
    LOCK TABLE {{outbox}}, {{dead}} IN ACCESS EXCLUSIVE MODE;
    IF EXISTS (SELECT 1 FROM {{outbox}}) OR EXISTS (SELECT 1 FROM {{dead}}) THEN
        RAISE EXCEPTION 'postrider: events came meanwhile';
    END IF;
END $guard$;
-- +goose StatementEnd
`

// guardSQLite fails by a constraint; SQLite raises errors in triggers only. The
// transaction is immediate, so it has the write lock already.
const guardSQLite = `
CREATE TABLE {{outbox_guard}} (events_came_meanwhile INTEGER CHECK (events_came_meanwhile = 0));
INSERT INTO {{outbox_guard}} SELECT (SELECT count(*) FROM {{outbox}}) + (SELECT count(*) FROM {{dead}});
DROP TABLE {{outbox_guard}};
`

// guarded returns the migrations with the guard at the head of the first one's
// way down. keepInbox takes the second one's way down out.
func (m *Migrator) guarded(dir fs.FS, keepInbox bool) (fs.FS, error) {
	guard := guardPostgres
	if m.dialect == outbox.SQLite {
		guard = guardSQLite
	}
	guard = m.names.Expand(m.dialect, guard)
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, err
	}
	out := fstest.MapFS{}
	for _, name := range names {
		f, err := dir.Open(name)
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(f)
		f.Close() //nolint:errcheck // it was read
		if err != nil {
			return nil, err
		}
		body := string(text)
		if strings.HasPrefix(name, "00001_") {
			body = strings.Replace(body, "-- +goose Down\n", "-- +goose Down\n"+guard, 1)
		}
		if keepInbox && strings.HasPrefix(name, "00002_") {
			up, _, _ := strings.Cut(body, "-- +goose Down\n")
			body = up + "-- +goose Down\nSELECT 1;\n" // goose wants a statement
		}
		out[name] = &fstest.MapFile{Data: []byte(body)}
	}
	return out, nil
}
