package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

func (d *desk) claimer(t testing.TB) relay.Claimer {
	t.Helper()
	c, ok := d.Store.(relay.Claimer)
	if !ok {
		t.Skip("this store is no relay.Claimer")
	}
	return c
}

func deliverAll(_ context.Context, rows []relay.Row) relay.Settlement {
	return relay.Settlement{Delivered: refs(rows)}
}

var competeCases = []testcase{
	{"it claims due rows, oldest first, and settles what publish returns", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		rows := d.write(t, events("t", "k", 5)...)
		var got []relay.Row
		n, err := c.Compete(t.Context(), 3, func(ctx context.Context, claimed []relay.Row) relay.Settlement {
			got = claimed
			return deliverAll(ctx, claimed)
		})
		if n != 3 || err != nil {
			t.Errorf("claimed %d, %v", n, err)
		}
		same(t, "claimed", got, rows[:3])
		if x := d.Look(t); len(x.Pending) != 2 || len(x.Delivered) != 3 {
			t.Errorf("pending %d, delivered %d", len(x.Pending), len(x.Delivered))
		}
	}},
	{"nothing due is nothing claimed", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		r := event("t", "k", 1)
		r.Available = time.Now().Add(time.Hour)
		rows := d.write(t, r, event("t", "k", 2), event("t", "l", 3))
		d.mark(t, rows[1], relay.HeldRetry, time.Hour)
		d.mark(t, rows[2], relay.HeldBlocked, 0)
		n, err := c.Compete(t.Context(), 9, func(context.Context, []relay.Row) relay.Settlement {
			t.Error("publish was called")
			return relay.Settlement{}
		})
		if n != 0 || err != nil {
			t.Error(n, err)
		}
	}},
	{"rows without an outcome are left as they were", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		rows := d.write(t, events("t", "k", 3)...)
		n, err := c.Compete(t.Context(), 9, func(_ context.Context, claimed []relay.Row) relay.Settlement {
			return relay.Settlement{
				Delivered: refs(claimed[:1]),
				Marks:     []relay.Mark{{Ref: claimed[1].Ref, Held: relay.HeldRetry, Attempts: 1, Error: "no"}},
			}
		})
		if n != 3 || err != nil {
			t.Error(n, err)
		}
		x := d.Look(t)
		a, _ := x.record(rows[1])
		b, _ := x.record(rows[2])
		if len(x.Pending) != 2 || a.Attempts != 1 || a.Held != relay.HeldRetry || b.Held != "" || b.Attempts != 0 {
			t.Errorf("%+v", x.Pending)
		}
	}},
	{"a due retry is claimed again", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		rows := d.write(t, events("t", "k", 2)...)
		d.mark(t, rows[0], relay.HeldRetry, 0)
		n, err := c.Compete(t.Context(), 9, deliverAll)
		if x := d.Look(t); n != 2 || err != nil || len(x.Pending) != 0 {
			t.Error(n, err, len(x.Pending))
		}
	}},
	{"two claimers never share a row", func(t *testing.T, d *desk) {
		d.claimer(t)
		d.write(t, events("t", "", 200)...)
		var seen sync.Map
		var group sync.WaitGroup
		for range 3 {
			c := d.Connect(t).(relay.Claimer)
			group.Go(func() {
				for {
					n, err := c.Compete(t.Context(), 7, func(ctx context.Context, rows []relay.Row) relay.Settlement {
						if len(rows) > 7 {
							t.Errorf("S14 claimed %d of 7", len(rows))
						}
						for _, r := range rows {
							if _, twice := seen.LoadOrStore(r.ID, true); twice {
								t.Errorf("row %d was claimed twice", r.ID.Int())
							}
						}
						return deliverAll(ctx, rows)
					})
					if err != nil || n == 0 {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		group.Wait()
		n, err := d.claimer(t).Compete(t.Context(), 1000, deliverAll)
		if x := d.Look(t); err != nil || len(x.Pending) != 0 || len(x.Delivered) != 200 {
			t.Errorf("claimed %d at the end, %v: %d pending, %d delivered", n, err, len(x.Pending), len(x.Delivered))
		}
	}},
	{"what publish reports is settled also when ctx is done meanwhile", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		d.write(t, events("t", "k", 3)...)
		ctx, cancel := context.WithCancel(t.Context())
		n, err := c.Compete(ctx, 9, func(_ context.Context, rows []relay.Row) relay.Settlement {
			cancel()
			return relay.Settlement{Delivered: refs(rows)}
		})
		if x := d.Look(t); n != 3 || err != nil || len(x.Delivered) != 3 {
			t.Error(n, err, len(x.Delivered))
		}
	}},
	{"a panic in publish lets the rows go", func(t *testing.T, d *desk) {
		c := d.claimer(t)
		d.write(t, events("t", "k", 3)...)
		func() {
			defer func() { _ = recover() }()
			_, _ = c.Compete(t.Context(), 9, func(context.Context, []relay.Row) relay.Settlement { panic("poison") })
		}()
		eventually(t, "claimed again", func() bool {
			n, err := c.Compete(t.Context(), 9, deliverAll)
			return n == 3 && err == nil
		})
	}},
}

var wakeCases = []testcase{
	{"an insert rings while the bell is armed", func(t *testing.T, d *desk) {
		w, ok := d.Store.(relay.Waker)
		if !ok {
			t.Skip("this store is no relay.Waker")
		}
		var rings atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Listen(ctx, func() { rings.Add(1) }) }()
		eventually(t, "ring", func() bool {
			select {
			case err := <-ended:
				t.Skipf("no wake-up here: %v", err)
			default:
			}
			before := rings.Load()
			f := d.fetch(t, relay.FetchQuery{Arm: time.Second})
			if !f.Armed && len(f.Rows) == 0 {
				t.Error("not armed by an empty fetch")
			}
			rows := d.write(t, event("t", "k", 1))
			defer d.settle(t, relay.Settlement{Delivered: refs(rows)})
			for range 50 {
				if rings.Load() > before {
					return true
				}
				time.Sleep(10 * time.Millisecond)
			}
			return false
		})
		cancel()
		if err := <-ended; err == nil {
			t.Error("listen ended without an error")
		}
	}},
	{"a fetch that finds something does not arm, Disarm takes it back", func(t *testing.T, d *desk) {
		if _, ok := d.Store.(relay.Waker); !ok {
			t.Skip("this store is no relay.Waker")
		}
		rows := d.write(t, event("t", "k", 1))
		if f := d.fetch(t, relay.FetchQuery{Arm: time.Second}); f.Armed {
			t.Error("armed with a row at hand")
		}
		d.settle(t, relay.Settlement{Delivered: refs(rows)})
		d.fetch(t, relay.FetchQuery{Arm: time.Second})
		if f := d.fetch(t, relay.FetchQuery{Disarm: true}); f.Armed {
			t.Error("armed by disarming")
		}
	}},
	{"losing the wake-up loses no event", func(t *testing.T, d *desk) {
		w, ok := d.Store.(relay.Waker)
		if !ok {
			t.Skip("this store is no relay.Waker")
		}
		_ = w.Arm(t.Context()) // an error is allowed: there may be no bell
		rows := d.write(t, event("t", "k", 1))
		same(t, "rows", d.fetch(t, relay.FetchQuery{}).Rows, rows)
	}},
}

var togetherCases = []testcase{
	{"S04 order per key is commit order when writers of the key serialise", func(t *testing.T, d *desk) {
		const keys, rounds = 5, 30
		var locks [keys]sync.Mutex
		var counters [keys]int
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() {
				for i := range rounds {
					k := i % keys
					locks[k].Lock()
					counters[k]++
					d.write(t, event("t", fmt.Sprint(k), counters[k]))
					locks[k].Unlock()
				}
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		seen := map[string]int{}
		for left := 3 * rounds; left > 0; {
			f := d.fetch(t, relay.FetchQuery{Rows: 7})
			for _, r := range f.Rows {
				var n int
				if _, err := fmt.Sscanf(string(r.Payload), "t/"+r.Key.Key+"/%d", &n); err != nil || n != seen[r.Key.Key]+1 {
					t.Errorf("key %s: %q after %d", r.Key.Key, r.Payload, seen[r.Key.Key])
				}
				seen[r.Key.Key] = n
			}
			d.settle(t, relay.Settlement{Delivered: refs(f.Rows)})
			left -= len(f.Rows)
			if t.Failed() {
				break
			}
		}
		<-done
	}},
	{"S01 everything committed is fetched, whatever the commit order", func(t *testing.T, d *desk) {
		if !d.Caps.Writers {
			t.Skip("one writer at a time")
		}
		const writers, each = 8, 25
		var group sync.WaitGroup
		var committed atomic.Int64
		for w := range writers {
			group.Go(func() {
				for i := range each {
					tx := d.Begin(t)
					tx.Insert(t, event("t", fmt.Sprint(w), i))
					time.Sleep(time.Duration((w*7+i*3)%10) * time.Millisecond) // commits in another order than the ids
					if (w+i)%20 == 0 {
						tx.Rollback(t)
						continue
					}
					tx.Commit(t)
					committed.Add(1)
				}
			})
		}
		done := make(chan struct{})
		go func() { group.Wait(); close(done) }()
		got := map[relay.RowID]bool{}
		drain := func() {
			f := d.fetch(t, relay.FetchQuery{Rows: 20})
			for _, r := range f.Rows {
				if got[r.ID] {
					t.Errorf("row %d twice", r.ID.Int())
				}
				got[r.ID] = true
			}
			d.settle(t, relay.Settlement{Delivered: refs(f.Rows)})
		}
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			drain()
		}
		for len(d.fetch(t, relay.FetchQuery{}).Rows) > 0 {
			drain()
		}
		if int64(len(got)) != committed.Load() {
			t.Errorf("fetched %d of %d", len(got), committed.Load())
		}
	}},
	{"the methods of one store work at the same time", func(t *testing.T, d *desk) {
		d.write(t, events("t", "k", 50)...)
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 10 {
					f := d.fetch(t, relay.FetchQuery{Rows: 2})
					d.settle(t, relay.Settlement{Delivered: refs(f.Rows)})
					if _, err := d.Keep(t.Context()); err != nil {
						t.Error(err)
					}
					d.heldKeys(t)
				}
			})
		}
		group.Wait()
	}},
}
