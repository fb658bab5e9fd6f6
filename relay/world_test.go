package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

// node is one process of a relay: it can crash, hang and be paused apart from
// the others of its world.
type node struct {
	t      *testing.T
	in     *fault.Injector
	relay  *relay.Relay
	cancel context.CancelFunc
	done   chan error
}

// node starts a relay behind a fault injector.
func (w *world) node(plan fault.Plan, change ...func(*relay.Config)) *node {
	w.t.Helper()
	in := fault.New(plan)
	changes := append([]func(*relay.Config){func(c *relay.Config) {
		c.Databases[0].Store = fault.NewStore(w.db.Connect(), in)
		c.Brokers["default"] = fault.NewBroker(w.broker.Connect(), in)
	}}, change...)
	n := &node{t: w.t, in: in, relay: w.relay(changes...), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	ended := make(chan struct{})
	w.t.Cleanup(func() { in.Resume(); in.Release(); cancel(); <-ended })
	go func() { defer close(ended); n.done <- n.relay.Run(ctx) }()
	return n
}

// stop ends a node gracefully and returns how long that took.
func (n *node) stop() time.Duration {
	n.t.Helper()
	began := time.Now()
	n.cancel()
	if err := <-n.done; err != nil {
		n.t.Errorf("run: %v", err)
	}
	return time.Since(began)
}

// kill ends a node as kill -9 does: nothing of it has an effect any more.
func (n *node) kill() {
	n.t.Helper()
	n.in.Crash()
	n.stop()
}

func (n *node) status() relay.DatabaseStatus {
	return n.relay.Status(context.Background()).Databases[0]
}

// put commits one event in a transaction of its own.
func (w *world) put(topic, key, payload string) relay.Row {
	return w.db.Insert(relay.Row{Key: relay.Key{Topic: topic, Key: key}, Payload: []byte(payload)})[0]
}

// accepted lists the payloads that the broker accepted, in order.
func (w *world) accepted() []string {
	var out []string
	for _, a := range w.broker.Log() {
		out = append(out, string(a.Payload))
	}
	return out
}

// has reports whether the broker accepted a payload.
func (w *world) has(payload string) bool { return slices.Contains(w.accepted(), payload) }

// firsts checks that the first deliveries of n events of each key are complete
// and in order, and returns how many deliveries were repeated.
func (w *world) firsts(keys []string, n int) (duplicates int) {
	w.t.Helper()
	next, seen := map[string]int{}, map[string]bool{}
	for _, a := range w.broker.Log() {
		if seen[a.Identity] {
			duplicates++
			continue
		}
		seen[a.Identity] = true
		if want := fmt.Sprintf("%s %d", a.Key, next[a.Key]); string(a.Payload) != want {
			w.t.Fatalf("first delivery %q, want %q", a.Payload, want)
		}
		next[a.Key]++
	}
	for _, k := range keys {
		if next[k] != n {
			w.t.Errorf("key %q: %d accepted, want %d", k, next[k], n)
		}
	}
	if v := w.broker.Violations(); len(v) > 0 {
		w.t.Errorf("contract broken: %v", v)
	}
	return duplicates
}

// inOrder is firsts for keys of different lengths.
func (w *world) inOrder(events map[string]int) {
	w.t.Helper()
	w.firsts(nil, 0)
	got, seen := map[string]int{}, map[string]bool{}
	for _, a := range w.broker.Log() {
		if !seen[a.Identity] {
			got[a.Key]++
		}
		seen[a.Identity] = true
	}
	for k, n := range events {
		if got[k] != n {
			w.t.Errorf("key %q: %d accepted, want %d", k, got[k], n)
		}
	}
}

// empty checks that nothing is pending and nothing died.
func (w *world) empty() {
	w.t.Helper()
	if n := len(w.db.Pending()); n > 0 {
		w.t.Errorf("%d rows left", n)
	}
	if n := len(w.db.Dead()); n > 0 {
		w.t.Errorf("%d dead letters", n)
	}
}

// until waits for something to become true, at most for limit, and returns how
// long it took.
func (w *world) until(limit time.Duration, what string, is func() bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	for !is() {
		if time.Since(began) > limit {
			w.t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

var (
	errDown    = errors.New("connection refused")
	errRefused = errors.New("refused")
)

// hangs makes a broker that never answers for the payloads that poison names,
// until the call's context ends.
type hanging struct {
	*memory.Broker
	poison func(relay.Event) bool
}

// Publish sends what is before the first poison of each key and then waits.
func (h hanging) Publish(ctx context.Context, events []relay.Event) []error {
	errs := make([]error, len(events))
	var good []relay.Event
	var at []int
	stuck := map[string]bool{}
	for i, e := range events {
		switch {
		case e.Key != "" && stuck[e.Key]:
			errs[i] = relay.ErrHeld
		case h.poison(e):
			errs[i] = context.DeadlineExceeded
			stuck[e.Key] = true
		default:
			good, at = append(good, e), append(at, i)
		}
	}
	if len(good) > 0 {
		for j, err := range h.Broker.Publish(ctx, good) {
			errs[at[j]] = err
		}
	}
	if len(good) < len(events) {
		<-ctx.Done()
	}
	return errs
}
