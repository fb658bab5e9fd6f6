package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func TestMain(m *testing.M) {
	if producing() {
		produce()
		return
	}
	goleak.VerifyTestMain(m)
}

// newFile makes a database file with the tables and returns its name and a
// connection as an application has one.
func newFile(t testing.TB) (string, *sql.DB) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "app 100%?.db")
	db := application(t, name)
	var script bytes.Buffer
	if err := outbox.Print(&script, outbox.FormatSQL, outbox.SQLite, outbox.Names{}, outbox.MigrationOptions{}); err != nil {
		t.Fatal(err)
	}
	mustExec(t, db, script.String())
	return name, db
}

// application opens a file as another program would: with settings of its own.
func application(t testing.TB, name string) *sql.DB {
	t.Helper()
	source := dataSource(name, 10*time.Second, false)
	db, err := sql.Open("sqlite", strings.Replace(source, "mode=rw", "mode=rwc", 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newStore(t testing.TB, change ...func(*Config)) (*Store, *sql.DB) {
	t.Helper()
	name, db := newFile(t)
	return openStore(t, name, change...), db
}

func openStore(t testing.TB, name string, change ...func(*Config)) *Store {
	t.Helper()
	cfg := Config{URL: "sqlite:" + name}
	for _, c := range change {
		c(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func mustExec(t testing.TB, db interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}, query string, args ...any,
) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func insert(t testing.TB, db *sql.DB, topic, key string, payloads ...string) {
	t.Helper()
	for _, p := range payloads {
		mustExec(t, db, `INSERT INTO outbox (topic, key, payload) VALUES (?, ?, ?)`, topic, key, []byte(p))
	}
}

func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func fetch(t testing.TB, s *Store, q relay.FetchQuery) relay.Fetched {
	t.Helper()
	if q.Rows == 0 {
		q.Rows = 1000
	}
	f, err := s.Fetch(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func settle(t testing.TB, s *Store, st relay.Settlement) relay.Settled {
	t.Helper()
	out, err := s.Settle(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func payloads(rows []relay.Row) (out []string) {
	for _, r := range rows {
		out = append(out, string(r.Payload))
	}
	return out
}

func refs(rows []relay.Row) (out []relay.Ref) {
	for _, r := range rows {
		out = append(out, r.Ref)
	}
	return out
}

func ids(rows []relay.Row) (out []relay.RowID) {
	for _, r := range rows {
		out = append(out, r.ID)
	}
	return out
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}
