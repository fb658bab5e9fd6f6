package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func TestPromote_NewIDsInTheOrderOfFallingDue(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	at := func(d time.Duration) int64 { return time.Now().Add(d).UnixMilli() }
	for i, when := range []int64{at(time.Hour), at(200 * time.Millisecond), at(100 * time.Millisecond)} {
		mustExec(t, db, `INSERT INTO outbox (topic, key, payload, available_at) VALUES ('orders', 'k', ?, ?)`, fmt.Sprint(i), when)
	}
	insert(t, db, "orders", "k", "now")
	f := fetch(t, s, relay.FetchQuery{})
	equal(t, "due", payloads(f.Rows), []string{"now"})
	// SQLite's milliseconds are cut off, so its now may be one behind.
	if f.Next <= 0 || f.Next > 101*time.Millisecond {
		t.Errorf("next %v", f.Next)
	}
	deadline := time.Now().Add(10 * time.Second)
	for promoted := 0; promoted < 2 && time.Now().Before(deadline); {
		n, err := s.Promote(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		promoted += n
		time.Sleep(time.Millisecond) // the due time is what is waited for
	}
	insert(t, db, "orders", "k", "later")
	f = fetch(t, s, relay.FetchQuery{})
	equal(t, "promoted", payloads(f.Rows), []string{"now", "2", "1", "later"})
	if f.Scheduled || f.Rows[1].Queued.Before(f.Rows[1].Available) {
		t.Errorf("%+v", f.Rows[1])
	}
}

func TestKeep_RemovesWhatIsOlderThanItsRetention(t *testing.T) {
	t.Parallel()
	s, db := newStore(t, func(c *Config) { c.Retention, c.DeadRetention = time.Hour, time.Hour })
	mustExec(t, db, `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < ?)
		INSERT INTO outbox (topic, key, payload) SELECT 'orders', 'k', 'x' FROM c`, keepRows+10)
	f := fetch(t, s, relay.FetchQuery{Rows: 5000})
	settle(t, s, relay.Settlement{Delivered: refs(f.Rows[2:]), Dead: []relay.Death{{Ref: f.Rows[0].Ref}}})
	if kept, err := s.Keep(t.Context()); err != nil || kept.Removed != 0 || kept.More {
		t.Errorf("%+v, %v", kept, err)
	}
	mustExec(t, db, `UPDATE outbox_delivered SET delivered_at = delivered_at - 3601000 WHERE id > 20`)
	mustExec(t, db, `UPDATE outbox_dead SET died_at = died_at - 3601000`)
	mustExec(t, db, `UPDATE outbox SET queued_at = 1, created_at = 1`)
	removed := int64(0)
	for {
		kept, err := s.Keep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if removed += kept.Removed; !kept.More {
			break
		}
	}
	if n := count(t, db, `SELECT count(*) FROM outbox_delivered`); n != 18 || removed != keepRows+10-20+1 {
		t.Errorf("%d kept, %d removed", n, removed)
	}
	if count(t, db, `SELECT count(*) FROM outbox`) != 1 {
		t.Error("a pending row was removed")
	}
}

func TestOpen_RefusesWhatCannotBeServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("not a database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty.db")
	mustExec(t, application(t, empty), `CREATE TABLE other (id INTEGER)`)
	foreign := filepath.Join(dir, "foreign.db")
	mustExec(t, application(t, foreign), `CREATE TABLE outbox (id INTEGER PRIMARY KEY, payload TEXT)`)
	newer, db := newFile(t)
	mustExec(t, db, `UPDATE outbox_version SET version = version + 2`)
	for _, c := range []struct{ name, want string }{
		{filepath.Join(dir, "missing.db"), "migrate up"},
		{dir, ""},
		{text, "not a SQLite database"},
		{empty, "migrate up"},
		{foreign, "--prefix"},
		{newer, "newer"},
	} {
		s, err := New(Config{URL: c.name})
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Open(t.Context())
		if !relay.IsMisconfigured(err) || !strings.Contains(relay.HintOf(err), c.want) {
			t.Errorf("%s: %v, hint %q", c.name, err, relay.HintOf(err))
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", c.name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "missing.db")); err == nil {
		t.Error("Open made a file")
	}
	mustExec(t, db, `UPDATE outbox_version SET version = version - 1`)
	openStore(t, newer)
}

func TestNew_ReportsEveryErrorAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Config{URL: ":memory:", Retention: -5, History: "some", WakeInterval: -1})
	if !relay.IsMisconfigured(err) {
		t.Fatal(err)
	}
	for _, want := range []string{"url:", "retention:", "history:", "wake_interval:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestIdentity_ChangesWithTheFileAndItsHistory(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1", "2", "3")
	before := fetch(t, s, relay.FetchQuery{})
	mustExec(t, db, `DELETE FROM outbox`)
	mustExec(t, db, `UPDATE sqlite_sequence SET seq = 1 WHERE name = 'outbox'`) // as after a restore
	restored := fetch(t, s, relay.FetchQuery{})
	if restored.Server == before.Server {
		t.Error("a smaller sequence was not noticed")
	}
	copied, other := newFile(t)
	insert(t, other, "orders", "k", "other")
	if err := errors.Join(other.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(s.cfg.file() + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.Rename(copied, s.cfg.file()); err != nil {
		t.Fatal(err)
	}
	replaced := fetch(t, s, relay.FetchQuery{})
	if replaced.Server == restored.Server {
		t.Error("another file was not noticed")
	}
	equal(t, "rows of the new file", payloads(replaced.Rows), []string{"other"})
	if server, err := s.Open(t.Context()); err != nil || server.Identity != replaced.Server {
		t.Errorf("%+v, %v", server, err)
	}
}
