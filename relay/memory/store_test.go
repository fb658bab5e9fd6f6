package memory_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func event(topic, key string) relay.Row {
	return relay.Row{Key: relay.Key{Topic: topic, Key: key}, Payload: []byte(key)}
}

func ids(rows []relay.Row) (out []int64) {
	for _, r := range rows {
		out = append(out, r.ID.Int())
	}
	return out
}

func equal(t *testing.T, what string, got []int64, want ...int64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
	}
}

func fetch(t *testing.T, s *memory.Store, q relay.FetchQuery) relay.Fetched {
	t.Helper()
	if q.Rows == 0 {
		q.Rows = 100
	}
	out, err := s.Fetch(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func settle(t *testing.T, s *memory.Store, b relay.Settlement) relay.Settled {
	t.Helper()
	out, err := s.Settle(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func mark(t *testing.T, s *memory.Store, r relay.Row, held relay.Held, after time.Duration) {
	t.Helper()
	settle(t, s, relay.Settlement{Marks: []relay.Mark{{Ref: r.Ref, Held: held, After: after, Keep: true}}})
}

func TestTx_IdsAreDrawnAtInsertAndVisibleAtCommit(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	a, b, c := s.Begin(), s.Begin(), s.Begin()
	a.Insert(event("t", "k"))
	b.Insert(event("t", "k"))
	c.Insert(event("t", "k"))
	_ = b.Commit()
	c.Rollback()
	equal(t, "before the lower id commits", ids(fetch(t, s, relay.FetchQuery{}).Rows), 2)
	_ = a.Commit()
	equal(t, "after", ids(fetch(t, s, relay.FetchQuery{}).Rows), 1, 2)
	if err := a.Commit(); !errors.Is(err, memory.ErrTxDone) {
		t.Errorf("second commit: %v", err)
	}
	equal(t, "a rolled back id is not drawn again", ids(s.Insert(event("t", "k"))), 4)
}

func TestFetch_BoundsSkipAndFairness(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	s.Insert(event("a", "1"), event("a", "2"), event("a", "3"), event("b", "4"))
	got := fetch(t, s, relay.FetchQuery{Rows: 2})
	equal(t, "fair", ids(got.Rows), 1, 4)
	if !got.More {
		t.Error("More is not set")
	}
	skip := []relay.RowID{relay.IntID(1), relay.IntID(4)}
	equal(t, "skip", ids(fetch(t, s, relay.FetchQuery{Skip: skip}).Rows), 2, 3)
	equal(t, "without", ids(fetch(t, s, relay.FetchQuery{Without: []string{"a"}}).Rows), 4)
	equal(t, "topics", ids(fetch(t, s, relay.FetchQuery{Topics: []string{"b"}}).Rows), 4)
	equal(t, "at least one row", ids(fetch(t, s, relay.FetchQuery{Bytes: 1}).Rows), 1)
	got = fetch(t, s, relay.FetchQuery{PerTopic: 1})
	equal(t, "per topic", ids(got.Rows), 1, 4)
	if !got.More {
		t.Error("More is not set by PerTopic")
	}
	var lanes relay.Lanes
	lanes.Add(relay.LaneOf("2", [16]byte{}))
	equal(t, "lanes", ids(fetch(t, s, relay.FetchQuery{Lanes: &lanes}).Rows), 2)
}

func TestClosedKey_IsReadByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		late := s.Begin()
		early := late.Insert(event("t", "k"))[0]
		rows := s.Insert(event("t", "k"), event("t", "k"), event("t", "other"))
		mark(t, s, rows[0], relay.HeldRetry, time.Minute)

		got := fetch(t, s, relay.FetchQuery{})
		equal(t, "rows", ids(got.Rows), 4)
		equal(t, "closed", ids(got.Closed), 3)
		if got.Next != time.Minute || len(got.Due) != 0 {
			t.Errorf("next %v, due %v", got.Next, got.Due)
		}
		mark(t, s, rows[1], relay.HeldBehind, 0)
		equal(t, "marked once", ids(fetch(t, s, relay.FetchQuery{}).Closed))

		k := relay.Key{Topic: "t", Key: "k"}
		read := func() relay.KeyRead {
			out, err := s.ReadKeys(t.Context(), []relay.Key{k}, 10)
			if err != nil {
				t.Fatal(err)
			}
			return out[0]
		}
		if r := read(); len(r.Rows) != 0 || r.Wait != time.Minute {
			t.Errorf("before its retry: %+v", r)
		}
		time.Sleep(time.Minute)
		equal(t, "in its turn", ids(read().Rows), 2, 3)
		if due := fetch(t, s, relay.FetchQuery{}).Due; len(due) != 1 || due[0] != k {
			t.Errorf("due %v", due)
		}
		_ = late.Commit()
		if r := read(); len(r.Rows) != 0 || !r.More {
			t.Errorf("a lower row that is not held stops the read: %+v", r)
		}
		mark(t, s, early, relay.HeldBehind, 0)
		equal(t, "the lower row first", ids(read().Rows), 1, 2, 3)
		mark(t, s, rows[0], relay.HeldBlocked, 0)
		equal(t, "up to a blocked row", ids(read().Rows), 1)
		mark(t, s, rows[0], relay.HeldBehind, 0)
		equal(t, "a late mark does not un-block", ids(read().Rows), 1)
		settle(t, s, relay.Settlement{Delivered: []relay.Ref{early.Ref}})
		if r := read(); !r.Blocked || len(r.Rows) != 0 {
			t.Errorf("a blocked head: %+v", r)
		}
		settle(t, s, relay.Settlement{Delivered: []relay.Ref{rows[0].Ref, rows[1].Ref}})
		if !read().Open {
			t.Error("a key without held rows is not open")
		}
	})
}

func TestSettle_NamesARowInFull(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	backup := s.Backup()
	lost := s.Insert(event("t", "k"))[0]
	s.Restore(backup, "another")
	s.Insert(event("t", "k"))
	if got := settle(t, s, relay.Settlement{Delivered: []relay.Ref{lost.Ref}}); got.Missed != 1 {
		t.Errorf("missed %d", got.Missed)
	}
	got := fetch(t, s, relay.FetchQuery{})
	equal(t, "the event that took the id", ids(got.Rows), 1)
	if got.Server != "another" {
		t.Errorf("server %q", got.Server)
	}
}

func TestSettle_DeadLettersOnlyUnderALiveFence(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Config{})
	f, _ := s.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: "a"}})
	rows := s.Insert(event("t", "k"), event("t", "l"))
	death := relay.Settlement{Fence: relay.Fence{Instance: "a", Epoch: f.Epoch - 1}, Dead: []relay.Death{{Ref: rows[0].Ref}}, Delivered: []relay.Ref{rows[1].Ref}}
	if got := settle(t, s, death); got.Missed != 1 || len(s.Pending()) != 1 || len(s.Dead()) != 0 {
		t.Errorf("stale fence: %+v", got)
	}
	death.Fence = f
	if settle(t, s, death); len(s.Dead()) != 1 {
		t.Error("no dead letter under a live fence")
	}
	if s.Replay(s.Dead()[0].Ref) != 1 {
		t.Fatal("the dead letter is not found")
	}
	if r := s.Pending()[0]; r.Generation != 1 || r.EventID != rows[0].EventID || r.ID.Int() != 3 {
		t.Errorf("replayed as %+v", r.Ref)
	}
}

func TestPromote_TakesAPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		later := event("t", "k")
		later.Available = time.Now().Add(time.Hour)
		s.Insert(later, event("t", "k"))
		got := fetch(t, s, relay.FetchQuery{})
		equal(t, "a scheduled row holds nobody", ids(got.Rows), 2)
		if got.Scheduled || got.Next != time.Hour {
			t.Errorf("scheduled %v, next %v", got.Scheduled, got.Next)
		}
		time.Sleep(time.Hour)
		if !fetch(t, s, relay.FetchQuery{}).Scheduled {
			t.Error("Scheduled is not set")
		}
		if n, _ := s.Promote(t.Context(), 10); n != 1 {
			t.Errorf("promoted %d", n)
		}
		equal(t, "promoted", ids(fetch(t, s, relay.FetchQuery{}).Rows), 2, 3)
	})
}
