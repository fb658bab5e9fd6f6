package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// world is a database, a broker and what a test does with them.
type world struct {
	t      *testing.T
	db     *memory.Store
	broker *memory.Broker
}

func newWorld(t *testing.T, cfg memory.ServerConfig) *world {
	return &world{t: t, db: memory.New(memory.Config{Name: "db"}), broker: memory.NewBroker(cfg)}
}

// relay makes a relay of the world; change may change its configuration.
func (w *world) relay(change ...func(*relay.Config)) *relay.Relay {
	w.t.Helper()
	cfg := relay.Config{
		Databases: []relay.Database{{Name: "db", Store: w.db.Connect()}},
		Brokers:   map[string]relay.Broker{"default": w.broker.Connect()},
		Routes:    []relay.Route{{}},
	}
	for _, c := range change {
		c(&cfg)
	}
	r, err := relay.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// start runs a relay until the returned function is called.
func (w *world) start(r *relay.Relay) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done, ended := make(chan error, 1), make(chan struct{})
	w.t.Cleanup(func() { cancel(); <-ended }) // a failed test must not leave its bubble waiting
	go func() { defer close(ended); done <- r.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
	}
}

// write commits n events of each key, one transaction an event, round after
// round.
func (w *world) write(topic string, keys []string, n int) {
	for i := range n {
		for _, k := range keys {
			w.db.Insert(relay.Row{Key: relay.Key{Topic: topic, Key: k}, Payload: fmt.Appendf(nil, "%s %d", k, i)})
		}
	}
}

// check compares what the broker accepted with n events of each key, in order
// and without a duplicate.
func (w *world) check(keys []string, n int) {
	w.t.Helper()
	next := map[string]int{}
	for _, a := range w.broker.Log() {
		want := fmt.Sprintf("%s %d", a.Key, next[a.Key])
		if string(a.Payload) != want {
			w.t.Fatalf("accepted %q, want %q", a.Payload, want)
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
}

func keys(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("k%03d", i)
	}
	return out
}

func TestDrain_DeliversEverythingInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: time.Millisecond})
		w.write("orders", keys(50), 40)
		report, err := w.relay().Drain(t.Context())
		if err != nil || report.Delivered != 2000 || len(report.Left) > 0 {
			t.Fatalf("drain: %+v, %v", report, err)
		}
		w.check(keys(50), 40)
		if n := len(w.db.Pending()); n > 0 {
			t.Errorf("%d rows left", n)
		}
	})
}

func TestRun_DeliversWhileWritersWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerEvent: 50 * time.Microsecond})
		stop := w.start(w.relay())
		for i := range 100 {
			for _, k := range keys(5) {
				w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: k}, Payload: fmt.Appendf(nil, "%s %d", k, i)})
			}
			time.Sleep(time.Duration(i) * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		w.check(keys(5), 100)
		stop()
	})
}

func TestS11_AFailedEventHoldsItsKeyOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refusals := 0
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if string(e.Payload) == "bad 0" && refusals < 2 {
				refusals++
				return relay.Rejected(errors.New("not now"))
			}
			return nil
		}})
		stop := w.start(w.relay())
		w.write("orders", []string{"bad", "good"}, 3)
		time.Sleep(500 * time.Millisecond)
		for _, a := range w.broker.Log() {
			if a.Key == "bad" {
				t.Errorf("%q passed the failed event", a.Payload)
			}
		}
		if got := len(w.broker.Log()); got != 3 {
			t.Errorf("%d events of the healthy key delivered, want 3", got)
		}
		time.Sleep(10 * time.Second)
		w.check([]string{"bad", "good"}, 3)
		stop()
	})
}

func TestS102_AnOutageCountsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, memory.ServerConfig{Verdict: func(relay.Event) error {
			if down.Load() {
				return relay.Unavailable(errors.New("connection refused"))
			}
			return nil
		}})
		stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].MaxAttempts = 5; c.Routes[0].OnFailure = relay.OnFailureDeadLetter }))
		w.write("orders", keys(100), 10)
		time.Sleep(10 * time.Minute)
		for _, r := range w.db.Pending() {
			if r.Attempts > 0 {
				t.Fatalf("%d attempts counted in an outage", r.Attempts)
			}
		}
		down.Store(false)
		time.Sleep(time.Minute)
		w.check(keys(100), 10)
		if n := len(w.db.Dead()); n > 0 {
			t.Errorf("%d dead letters", n)
		}
		stop()
	})
}

func TestStatus_TellsTheTimeFromCommitToAck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 3 * time.Millisecond})
		w.write("orders", keys(10), 1)
		time.Sleep(2 * time.Second)
		r := w.relay()
		if _, err := r.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		h := r.Status(t.Context()).Databases[0].CommitToAckSeconds
		if h.Count != 10 || h.Sum < 20*time.Second || h.Sum > 30*time.Second {
			t.Errorf("%d events in %v, want 10 of 2 s and a little", h.Count, h.Sum)
		}
	})
}
