package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func TestS01_LowerIDCommitsLater(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	// SQLite draws ids under the write lock, so a lower id cannot commit later.
	// What must hold is that nothing is lost whoever commits when: 16 writers
	// that wait before they commit, a tenth rolls back.
	const writers, each = 16, 20
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for i := range each {
				tx, err := db.BeginTx(context.WithoutCancel(t.Context()), nil)
				if err != nil {
					t.Error(err)
					return
				}
				mustExec(t, tx, `INSERT INTO outbox (topic, key, payload) VALUES ('orders', ?, ?)`, fmt.Sprint(w), fmt.Sprintf("%d/%d", w, i))
				time.Sleep(time.Duration(r.IntN(1000)) * time.Microsecond) // the fault itself: a slow transaction
				if r.IntN(10) == 0 {
					err = tx.Rollback()
				} else {
					err = tx.Commit()
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()
	last := map[string]int64{}
	received := 0
	for done := false; ; {
		select {
		case <-finished:
			done = true
		default:
		}
		f := fetch(t, s, relay.FetchQuery{})
		for _, r := range f.Rows {
			if r.ID.Int() <= last[r.Key.Key] {
				t.Errorf("key %s: %d after %d", r.Key.Key, r.ID.Int(), last[r.Key.Key])
			}
			last[r.Key.Key] = r.ID.Int()
		}
		received += len(f.Rows)
		settle(t, s, relay.Settlement{Delivered: refs(f.Rows)})
		if done && len(f.Rows) == 0 {
			break
		}
	}
	if n := count(t, db, `SELECT count(*) FROM outbox_delivered`); n != received || count(t, db, `SELECT count(*) FROM outbox`) != 0 {
		t.Errorf("received %d, history %d", received, n)
	}
}

func TestS27_OneRowsDataStopsNobody(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	for i := range 100 {
		insert(t, db, "orders", fmt.Sprint(i), "x")
	}
	mustExec(t, db, `UPDATE outbox SET attempts = ?, generation = ? WHERE key = '7'`, int64(math.MaxInt64), int64(math.MaxInt64))
	mustExec(t, db, `UPDATE outbox SET attempts = 1e300, schema_version = 'many' WHERE key = '8'`)
	mustExec(t, db, `UPDATE outbox SET type = x'ff00', last_error = x'00', content_type = 7 WHERE key = '9'`)
	f := fetch(t, s, relay.FetchQuery{})
	if len(f.Rows) != 100 {
		t.Fatalf("fetched %d of 100", len(f.Rows))
	}
	var marks []relay.Mark
	for _, r := range f.Rows {
		marks = append(marks, relay.Mark{Ref: r.Ref, Held: relay.HeldRetry, Attempts: r.Attempts, Error: "\x00\xff"})
	}
	marks[0].Error = strings.Repeat("x", 1<<20)
	if out := settle(t, s, relay.Settlement{Marks: marks}); out.Missed != 0 {
		t.Errorf("%d of 100 not marked", out.Missed)
	}
	if _, err := s.Report(t.Context()); err != nil {
		t.Error(err)
	}
	if out := settle(t, s, relay.Settlement{Delivered: refs(f.Rows)}); out.Missed != 0 {
		t.Errorf("%d of 100 not settled", out.Missed)
	}
}

func TestS65_S67_BytesArriveAsWritten(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	want := []string{
		`{"a":"\u0000"}`, "\x00", `"\ud800"`, "\xff\xfe\x00\x01", `{"zebra":1,"a":2,"a":3,  "n":1.0e2 }`, "", "42",
		strings.Repeat("\x00y", 1<<19),
	}
	for i, p := range want {
		if i%2 == 0 {
			insert(t, db, "orders", "k", p)
		} else { // as text: what other languages' drivers do
			mustExec(t, db, `INSERT INTO outbox (topic, key, payload) VALUES ('orders', 'k', CAST(? AS TEXT))`, []byte(p))
		}
	}
	mustExec(t, db, `INSERT INTO outbox (topic, key, payload, headers) VALUES ('orders', 'k', NULL, '{"a":"\u00e9\n","n":5}')`)
	f := fetch(t, s, relay.FetchQuery{})
	if len(f.Rows) != len(want)+1 {
		t.Fatalf("fetched %d rows", len(f.Rows))
	}
	for i, p := range want {
		if got := f.Rows[i].Payload; got == nil || sha256.Sum256(got) != sha256.Sum256([]byte(p)) {
			t.Errorf("payload %d: got %.40q, want %.40q", i, got, p)
		}
	}
	tombstone := f.Rows[len(want)]
	if tombstone.Payload != nil || tombstone.Headers["a"] != "é\n" || tombstone.Headers["n"] != "5" {
		t.Errorf("tombstone: %q %q", tombstone.Payload, tombstone.Headers)
	}
	// The same through the dead letters and the history.
	settle(t, s, relay.Settlement{Dead: []relay.Death{{Ref: f.Rows[4].Ref, Class: "permanent", Cause: "no\x00\xff"}}, Delivered: refs(f.Rows[:4])})
	if n := count(t, db, `SELECT count(*) FROM outbox_dead WHERE payload = ?`, []byte(want[4])); n != 1 {
		t.Error("dead letter has another payload")
	}
	if n := count(t, db, `SELECT count(*) FROM outbox_delivered WHERE payload = ?`, []byte(want[0])); n != 1 {
		t.Error("history has another payload")
	}
}

func TestFetch_TakesTurnsAndSkips(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	for i := range 50 {
		insert(t, db, "a", "k", fmt.Sprint("a", i))
	}
	insert(t, db, "b", "k", "b0", "b1")
	insert(t, db, "c", "k", strings.Repeat("c", 10_000), "c1")
	f := fetch(t, s, relay.FetchQuery{Rows: 10})
	equal(t, "fair", payloads(f.Rows)[:8], []string{"a0", "a1", "a2", "a3", "a4", "a5", "b0", "b1"})
	if !f.More || len(f.Rows) != 10 {
		t.Errorf("%d rows, more %v", len(f.Rows), f.More)
	}
	f = fetch(t, s, relay.FetchQuery{Rows: 3, Topics: []string{"a"}, Skip: ids(f.Rows)})
	equal(t, "skip", payloads(f.Rows), []string{"a6", "a7", "a8"})
	f = fetch(t, s, relay.FetchQuery{Without: []string{"a", "c"}})
	equal(t, "without", payloads(f.Rows), []string{"b0", "b1"})
	f = fetch(t, s, relay.FetchQuery{PerTopic: 1})
	if len(f.Rows) != 3 || !f.More {
		t.Errorf("per topic: %d rows, more %v", len(f.Rows), f.More)
	}
	f = fetch(t, s, relay.FetchQuery{Topics: []string{"c"}, Bytes: 10})
	if len(f.Rows) != 1 || !f.More {
		t.Errorf("a large row: %d rows, more %v", len(f.Rows), f.More)
	}
	f = fetch(t, s, relay.FetchQuery{Lanes: &relay.Lanes{}})
	if len(f.Rows) != 0 {
		t.Error("rows without a lane")
	}
}

func TestFetch_VisitsEveryOfManyTopics(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	const topics = maxTopics + 345
	mustExec(t, db, `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < ?)
		INSERT INTO outbox (topic, payload) SELECT 't' || i, 'x' FROM c`, topics)
	seen := map[string]bool{}
	for range 2 {
		for _, r := range fetch(t, s, relay.FetchQuery{Rows: 1000}).Rows {
			seen[r.Topic] = true
		}
	}
	if len(seen) != topics {
		t.Errorf("visited %d of %d topics", len(seen), topics)
	}
}

func TestClosedKeys(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1", "2", "3")
	insert(t, db, "orders", "other", "x")
	insert(t, db, "orders", "", "free", "free2")
	k := relay.Key{Topic: "orders", Key: "k"}
	read := func(key relay.Key) relay.KeyRead {
		t.Helper()
		out, err := s.ReadKeys(t.Context(), []relay.Key{key}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return out[0]
	}
	f := fetch(t, s, relay.FetchQuery{})
	settle(t, s, relay.Settlement{Marks: []relay.Mark{
		{Ref: f.Rows[0].Ref, Held: relay.HeldRetry, After: time.Hour, Attempts: 1, Error: "no"},
		{Ref: f.Rows[4].Ref, Held: relay.HeldRetry, After: time.Hour, Attempts: 1},
	}})
	f = fetch(t, s, relay.FetchQuery{})
	equal(t, "open rows", payloads(f.Rows), []string{"x", "free2"})
	if len(f.Closed) != 2 || f.Next <= 0 || f.Next > time.Hour {
		t.Errorf("closed %d, next %v", len(f.Closed), f.Next)
	}
	if r := read(k); r.Wait <= 59*time.Minute || len(r.Rows) != 0 || r.Open || r.Blocked {
		t.Errorf("waiting key: %+v", r)
	}
	// Only 3 is marked behind: 2 may be in flight elsewhere.
	settle(t, s, relay.Settlement{Marks: []relay.Mark{{Ref: f.Closed[1].Ref, Held: relay.HeldBehind, Keep: true}}})
	mustExec(t, db, `UPDATE outbox SET retry_at = 1 WHERE held = 'retry'`)
	r := read(k)
	equal(t, "up to the row that is not held", payloads(r.Rows), []string{"1"})
	if !r.More || r.Rows[0].Attempts != 1 || r.Rows[0].LastError != "no" {
		t.Errorf("%+v", r)
	}
	if r := read(relay.Key{Topic: "orders"}); len(r.Rows) != 1 {
		t.Errorf("without a key: %+v", r)
	}
	due := fetch(t, s, relay.FetchQuery{}).Due
	equal(t, "due", due, []relay.Key{k, {Topic: "orders"}})
	keys, more, err := s.HeldKeys(t.Context(), relay.Key{}, 1)
	if err != nil || !more {
		t.Fatal(keys, more, err)
	}
	equal(t, "held keys", keys, []relay.Key{{Topic: "orders"}})
	keys, more, err = s.HeldKeys(t.Context(), keys[0], 1)
	if err != nil || more {
		t.Fatal(keys, more, err)
	}
	equal(t, "held keys", keys, []relay.Key{k})

	settle(t, s, relay.Settlement{Marks: []relay.Mark{
		{Ref: f.Closed[0].Ref, Held: relay.HeldBehind, Keep: true},
		{Ref: r.Rows[0].Ref, Held: relay.HeldBlocked, Attempts: 2},
	}})
	if r := read(k); !r.Blocked || len(r.Rows) != 0 {
		t.Errorf("blocked key: %+v", r)
	}
	if keys, _, _ := s.HeldKeys(t.Context(), relay.Key{}, 10); len(keys) != 1 {
		t.Errorf("held keys: %v", keys)
	}
	report, err := s.Report(t.Context())
	if err != nil || report.HeldEvents != 4 || report.BlockedKeys != 1 || report.PendingEvents != 6 || report.Estimated {
		t.Errorf("%+v, %v", report, err)
	}
	settle(t, s, relay.Settlement{Dead: []relay.Death{{Ref: r.Rows[0].Ref, Attempts: 3, Class: "permanent", Cause: "no"}}})
	equal(t, "after the head left", payloads(read(k).Rows), []string{"2", "3"})
	settle(t, s, relay.Settlement{Delivered: refs(read(k).Rows)})
	if !read(k).Open {
		t.Error("an empty key is not open")
	}
}

func TestFetch_ARetryOfAClockThatWasSetBackIsDue(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	mustExec(t, db, `UPDATE outbox SET held = 'retry', retry_at = ?`, time.Now().Add(1000*time.Hour).UnixMilli())
	k := relay.Key{Topic: "orders", Key: "k"}
	equal(t, "due", fetch(t, s, relay.FetchQuery{}).Due, []relay.Key{k})
	if out, err := s.ReadKeys(t.Context(), []relay.Key{k}, 1); err != nil || len(out[0].Rows) != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestSettle_LeavesAloneWhatIsNotAsNamed(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	row := fetch(t, s, relay.FetchQuery{}).Rows[0]
	other, newer := row.Ref, row.Ref
	other.EventID[0] ^= 1
	newer.Generation++
	out := settle(t, s, relay.Settlement{
		Delivered: []relay.Ref{other, newer},
		Marks:     []relay.Mark{{Ref: other, Held: relay.HeldBlocked}},
		Dead:      []relay.Death{{Ref: newer}},
	})
	if out.Missed != 4 || count(t, db, `SELECT count(*) FROM outbox WHERE held IS NULL`) != 1 {
		t.Errorf("%+v", out)
	}
	if out := settle(t, s, relay.Settlement{Delivered: []relay.Ref{row.Ref, row.Ref}}); out.Missed != 1 {
		t.Errorf("settled twice: %+v", out)
	}
}

func TestSettle_DeliversWithoutAHistory(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	mustExec(t, db, `CREATE TRIGGER full BEFORE INSERT ON outbox_delivered BEGIN SELECT raise(ABORT, 'full'); END`)
	out := settle(t, s, relay.Settlement{Delivered: refs(fetch(t, s, relay.FetchQuery{}).Rows)})
	if !errors.Is(out.History, relay.ErrNoHistory) || count(t, db, `SELECT count(*) FROM outbox`) != 0 {
		t.Errorf("%+v", out)
	}
}

func TestHistory_HeadAndNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*Config)
		want   int
	}{
		{func(c *Config) { c.History = HistoryHead }, 1},
		{func(c *Config) { c.Retention = NoRetention }, 0},
	} {
		s, db := newStore(t, c.change)
		insert(t, db, "orders", "k", "1")
		settle(t, s, relay.Settlement{Delivered: refs(fetch(t, s, relay.FetchQuery{}).Rows)})
		if n := count(t, db, `SELECT count(*) FROM outbox_delivered WHERE payload IS NULL`); n != c.want {
			t.Errorf("%d rows of history, want %d", n, c.want)
		}
	}
}

func TestSettle_DeadLettersNeedTheLease(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1", "2")
	rows := fetch(t, s, relay.FetchQuery{}).Rows
	f, err := s.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	stale := f
	stale.Epoch--
	st := relay.Settlement{Fence: stale, Dead: []relay.Death{{Ref: rows[0].Ref}}, Delivered: refs(rows[1:])}
	if out := settle(t, s, st); out.Missed != 1 {
		t.Errorf("stale: %+v", out)
	}
	if n := count(t, db, `SELECT count(*) FROM outbox`); n != 1 {
		t.Errorf("%d rows left", n)
	}
	st.Fence, st.Delivered = f, nil
	if out := settle(t, s, st); out.Missed != 0 || count(t, db, `SELECT count(*) FROM outbox_dead`) != 1 {
		t.Errorf("%+v", out)
	}
}
