package relay_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// deck is a store that hands out rows from memory without looking for them, so
// that what is measured is the engine.
type deck struct {
	rows    []relay.Row
	next    int
	settled atomic.Int64
}

func (d *deck) Open(context.Context) (relay.Server, error) {
	return relay.Server{Identity: "deck"}, nil
}

func (d *deck) Fetch(_ context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	end := min(d.next+q.Rows, len(d.rows))
	f := relay.Fetched{Rows: d.rows[d.next:end], More: end < len(d.rows), Server: "deck", Now: time.Now()}
	d.next = end
	return f, nil
}

func (d *deck) ReadKeys(context.Context, []relay.Key, int) ([]relay.KeyRead, error) { return nil, nil }

func (d *deck) HeldKeys(context.Context, relay.Key, int) ([]relay.Key, bool, error) {
	return nil, false, nil
}

func (d *deck) Settle(_ context.Context, s relay.Settlement) (relay.Settled, error) {
	d.settled.Add(int64(len(s.Delivered)))
	return relay.Settled{}, nil
}

func (d *deck) Promote(context.Context, int) (int, error) { return 0, nil }
func (d *deck) Keep(context.Context) (relay.Kept, error)  { return relay.Kept{}, nil }
func (d *deck) Close() error                              { return nil }

type sink struct{}

func (sink) Publish(_ context.Context, events []relay.Event) []error {
	return make([]error, len(events))
}
func (sink) Close(context.Context) error { return nil }

// BenchmarkEngine is what the engine itself costs an event: no database, no
// broker, encoding included.
func BenchmarkEngine(b *testing.B) {
	for _, keys := range []int{10000, 1000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			b.ReportAllocs()
			d := &deck{rows: make([]relay.Row, b.N)}
			payload := make([]byte, 300)
			for i := range d.rows {
				d.rows[i] = relay.Row{
					Ref: relay.Ref{ID: relay.IntID(int64(i + 1)), Created: time.Now()},
					Key: relay.Key{Topic: "bench", Key: fmt.Sprintf("key-%d", i%keys)}, Payload: payload, ContentType: "application/json",
				}
			}
			r, err := relay.New(relay.Config{
				Databases: []relay.Database{{Name: "db", Store: d}},
				Brokers:   map[string]relay.Broker{"default": sink{}},
				Routes:    []relay.Route{{}},
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if report, err := r.Drain(b.Context()); err != nil || report.Delivered != int64(b.N) {
				b.Fatal(report, err)
			}
		})
	}
}
