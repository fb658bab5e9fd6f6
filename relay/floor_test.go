package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// floorsSeen counts the fetches that were given floors.
type floorsSeen struct {
	*memory.Store
	given atomic.Int64
}

func (s *floorsSeen) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	if q.Floors != nil {
		s.given.Add(1)
	}
	return s.Store.Fetch(ctx, q)
}

// Slow fetches make the relay ask for floors. A transaction that drew a low id
// and commits late must still be found before the next event of its key.
func TestS06_AFloorNeverHidesALateCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		w.db = memory.New(memory.Config{Name: "db", Hook: func(_ context.Context, method string, done bool) error {
			if method == "Fetch" && !done {
				time.Sleep(30 * time.Millisecond)
			}
			return nil
		}})
		store := &floorsSeen{Store: w.db.Connect()}
		stop := w.start(w.relay(func(c *relay.Config) { c.Databases[0].Store = store }))
		row := func(key, payload string) relay.Row {
			return relay.Row{Key: relay.Key{Topic: "orders", Key: key}, Payload: []byte(payload)}
		}
		for i := range 5 {
			late := w.db.Begin()
			late.Insert(row("late", fmt.Sprintf("late %d", 2*i)))
			for range 20 {
				w.db.Insert(row("", "filler"))
				time.Sleep(500 * time.Millisecond)
			}
			if err := late.Commit(); err != nil {
				t.Error(err)
			}
			w.db.Insert(row("late", fmt.Sprintf("late %d", 2*i+1)))
			time.Sleep(5 * time.Second)
		}
		stop()
		next := 0
		for _, a := range w.broker.Log() {
			if a.Key != "late" {
				continue
			}
			if want := fmt.Sprintf("late %d", next); string(a.Payload) != want {
				t.Fatalf("delivered %q, want %q", a.Payload, want)
			}
			next++
		}
		if next != 10 || store.given.Load() == 0 {
			t.Errorf("%d of 10 delivered, %d fetches with floors", next, store.given.Load())
		}
	})
}
