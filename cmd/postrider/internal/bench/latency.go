package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Latency is the time from a writer's commit to the broker's acknowledgement.
type Latency struct {
	Rate     float64 // events a second
	Duration time.Duration
	Payload  int
}

// LatencyResult is what a Latency measured.
type LatencyResult struct {
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
	Max  float64 `json:"max_ms"`
	Rate float64 `json:"rate"`
}

// Run writes one event a transaction at the rate while a relay runs.
func (l Latency) Run(ctx context.Context, e *Env) (LatencyResult, error) {
	var res LatencyResult
	inner, err := e.Broker()
	if err != nil {
		return res, err
	}
	defer inner.Close(ctx) //nolint:errcheck // everything was answered
	if err := e.Empty(ctx); err != nil {
		return res, err
	}
	watch := &watchedBroker{Broker: inner, acked: map[string]time.Time{}}
	_, stop, err := e.serve(ctx, 24*time.Hour, watch)
	if err != nil {
		return res, err
	}
	e.Log("writing %.0f events/s for %v", l.Rate, l.Duration)
	began := time.Now()
	committed, err := l.write(ctx, e)
	took := time.Since(began)
	if err == nil {
		err = waitFor(ctx, 10*time.Millisecond, func() (bool, error) { return watch.count() >= len(committed), nil })
	}
	if err := errors.Join(err, stop()); err != nil {
		return res, err
	}
	all := make([]time.Duration, 0, len(committed))
	for id, at := range committed {
		// An event may leave between the server's commit and its answer.
		all = append(all, max(0, watch.acked[id].Sub(at)))
	}
	slices.Sort(all)
	res.P50, res.P99, res.Max = percentile(all, 0.50), percentile(all, 0.99), percentile(all, 1)
	res.Rate = perSecond(len(committed), took)
	return res, e.Empty(ctx)
}

// write commits events at the rate, and returns when each commit returned.
func (l Latency) write(ctx context.Context, e *Env) (map[string]time.Time, error) {
	writer, err := outbox.NewWriter(e.Dialect, outbox.Config{Names: e.Names})
	if err != nil {
		return nil, err
	}
	payload := []byte(strings.Repeat("x", l.Payload))
	committed := map[string]time.Time{}
	began := time.Now()
	for i := 0; ; i++ {
		due := began.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
		if due.Sub(began) >= l.Duration {
			return committed, nil
		}
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		tx, err := e.DB.BeginTx(ctx, nil)
		if err != nil {
			return nil, err
		}
		event := outbox.Event{ID: outbox.NewID(), Topic: Topic, Key: fmt.Sprintf("key-%d", i%1000), Type: "bench", Payload: payload}
		if err := writer.Write(ctx, tx, event); err != nil {
			return nil, errors.Join(err, tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return nil, err
		}
		committed[event.ID.String()] = time.Now()
	}
}

// percentile is a percentile of sorted durations, in milliseconds.
func percentile(sorted []time.Duration, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := min(int(p*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[i].Microseconds()) / 1000
}

// watchedBroker notes when events were accepted.
type watchedBroker struct {
	relay.Broker
	mu    sync.Mutex
	acked map[string]time.Time
}

// Publish implements relay.Broker.
func (w *watchedBroker) Publish(ctx context.Context, events []relay.Event) []error {
	errs := w.Broker.Publish(ctx, events)
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range events {
		if errs[i] == nil {
			w.acked[events[i].Identity] = now
		}
	}
	return errs
}

func (w *watchedBroker) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}
