package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// BenchConfig is what Bench measures.
type BenchConfig struct {
	// Rows and Keys of the outbox, Payload bytes per row. Default 100,000 rows,
	// 10,000 keys, 300 bytes.
	Rows, Keys, Payload int
	// Batch is the number of rows of a fetch and of a settle. Default 4,000.
	Batch int
	// InFlight is how many rows are between fetch and settle. Default 12,000.
	InFlight int
	// Fill, if set, writes the rows faster than one INSERT each.
	Fill func(b *testing.B, rows, keys, payload int)
}

func (c BenchConfig) withDefaults() BenchConfig {
	for _, f := range []struct {
		field *int
		value int
	}{{&c.Rows, 100000}, {&c.Keys, 10000}, {&c.Payload, 300}, {&c.Batch, 4000}, {&c.InFlight, 12000}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return c
}

// Bench measures a store: fetching alone (each fetch leaves out what the ones
// before it brought, up to InFlight), settling alone, and both at once as a relay
// does. Each reports rows/s.
func Bench(b *testing.B, open func(b *testing.B) Harness, c BenchConfig) {
	c = c.withDefaults()
	start := func(b *testing.B) (Harness, relay.Store) {
		h := open(b)
		fill(b, h, c)
		return h, h.Connect(b)
	}
	b.Run("fetch", func(b *testing.B) {
		_, s := start(b)
		rows := 0
		for b.Loop() {
			skip := []relay.RowID{}
			for len(skip)+c.Batch <= c.InFlight {
				f := benchFetch(b, s, c, skip)
				skip = append(skip, ids(f.Rows)...)
				rows += len(f.Rows)
			}
		}
		rate(b, rows)
	})
	b.Run("settle", func(b *testing.B) {
		rows := 0
		for b.Loop() {
			b.StopTimer()
			h, s := start(b)
			all := refs(allRows(b, h, c))
			b.StartTimer()
			for len(all) > 0 {
				n := min(c.Batch, len(all))
				benchSettle(b, s, all[:n])
				all, rows = all[n:], rows+n
			}
		}
		rate(b, rows)
	})
	b.Run("both", func(b *testing.B) {
		rows := 0
		for b.Loop() {
			b.StopTimer()
			_, s := start(b)
			b.StartTimer()
			rows += drain(b, s, c)
		}
		rate(b, rows)
	})
}

// rate reports rows per second.
func rate(b *testing.B, rows int) { b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s") }

// drain fetches and settles at the same time until nothing is left.
func drain(b *testing.B, s relay.Store, c BenchConfig) (rows int) {
	var mu sync.Mutex
	moved := sync.NewCond(&mu)
	flying := []relay.RowID{} // ascending: there is one topic
	batches := make(chan []relay.Row, 16)
	var group sync.WaitGroup
	group.Go(func() {
		for batch := range batches {
			benchSettle(b, s, refs(batch))
			mu.Lock()
			flying = flying[len(batch):]
			mu.Unlock()
			moved.Signal()
		}
	})
	for {
		mu.Lock()
		for len(flying)+c.Batch > c.InFlight {
			moved.Wait()
		}
		skip := append([]relay.RowID{}, flying...)
		mu.Unlock()
		f := benchFetch(b, s, c, skip)
		if len(f.Rows) == 0 {
			mu.Lock()
			left := len(flying)
			mu.Unlock()
			if left == 0 || len(skip) == left {
				break
			}
			continue
		}
		mu.Lock()
		flying = append(flying, ids(f.Rows)...)
		mu.Unlock()
		rows += len(f.Rows)
		batches <- f.Rows
	}
	close(batches)
	group.Wait()
	return rows
}

func benchFetch(b *testing.B, s relay.Store, c BenchConfig, skip []relay.RowID) relay.Fetched {
	f, err := s.Fetch(b.Context(), relay.FetchQuery{Skip: skip, Rows: c.Batch, Bytes: 64 << 20})
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func benchSettle(b *testing.B, s relay.Store, rows []relay.Ref) {
	out, err := s.Settle(b.Context(), relay.Settlement{Delivered: rows})
	if err != nil || out.Missed != 0 || out.History != nil {
		b.Errorf("settle: %+v, %v", out, err)
	}
}

func allRows(b *testing.B, h Harness, c BenchConfig) (all []relay.Row) {
	s := h.Connect(b)
	var skip []relay.RowID
	for len(all) < c.Rows {
		f := benchFetch(b, s, BenchConfig{Batch: 20000}, skip)
		if len(f.Rows) == 0 {
			b.Fatalf("%d rows of %d", len(all), c.Rows)
		}
		all, skip = append(all, f.Rows...), append(skip, ids(f.Rows)...)
	}
	return all
}

func fill(b *testing.B, h Harness, c BenchConfig) {
	if c.Fill != nil {
		c.Fill(b, c.Rows, c.Keys, c.Payload)
		return
	}
	tx := h.Begin(b)
	payload := make([]byte, c.Payload)
	for i := range c.Rows {
		tx.Insert(b, relay.Row{
			Ref: relay.Ref{EventID: outbox.NewID()},
			Key: relay.Key{Topic: "bench", Key: fmt.Sprintf("key-%d", i%c.Keys)}, Payload: payload,
		})
	}
	tx.Commit(b)
}
