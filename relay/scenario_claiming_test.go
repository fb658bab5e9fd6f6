package relay_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

func competing(change ...func(*relay.Database)) func(*relay.Config) {
	return func(c *relay.Config) {
		c.Databases[0].Claim = relay.ClaimCompeting
		for _, ch := range change {
			ch(&c.Databases[0])
		}
	}
}

func onError(v string) func(*relay.Database) {
	return func(d *relay.Database) { d.OnError = v }
}

func batch(n int) func(*relay.Database) { return func(d *relay.Database) { d.Batch = n } }

func TestS14_CompetingRelaysShareTheWorkWithoutADuplicate(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{relay.OnErrorStop, relay.OnErrorContinue} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{PerCall: time.Millisecond})
				var calls []int
				for i := range 500 {
					w.put("orders", fmt.Sprintf("k%d", i%50), fmt.Sprintf("%d", i))
				}
				var nodes []*node
				for range 4 {
					nodes = append(nodes, w.node(sizes(&calls), competing(batch(10), onError(mode))))
					time.Sleep(time.Microsecond)
				}
				w.drained(time.Minute)
				seen := map[string]int{}
				for _, p := range w.accepted() {
					seen[p]++
				}
				for p, n := range seen {
					if n != 1 {
						t.Errorf("%q sent %d times", p, n)
					}
				}
				for _, n := range calls {
					if n > 10 {
						t.Errorf("a call of %d events, the limit is 10", n)
					}
				}
				for _, n := range nodes {
					n.stop()
				}
			})
		})
	}
}

func TestCompeting_OnErrorStopAndContinue(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{relay.OnErrorStop, relay.OnErrorContinue} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Verdict: refuseTimes("2", 2)})
				for i := range 5 {
					w.put("orders", fmt.Sprintf("k%d", i), fmt.Sprint(i))
				}
				stop := w.start(w.relay(competing(onError(mode))))
				time.Sleep(100 * time.Millisecond)
				want := 4
				if mode == relay.OnErrorStop {
					want = 2
				}
				if n := len(w.broker.Log()); n != want {
					t.Errorf("%d sent by the first batch, want %d", n, want)
				}
				held := w.db.Held()
				if len(held) != 1 || held[0].Attempts != 1 {
					t.Errorf("held %+v", held)
				}
				w.drained(20 * time.Second)
				stop()
			})
		})
	}
}

func TestCompeting_WhatWasAcceptedIsCountedAndSettledWhateverFollows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if down.Load() && string(e.Payload) == "3" {
				return relay.Unavailable(errDown)
			}
			return nil
		}})
		for i := range 5 {
			w.put("orders", "k", fmt.Sprint(i))
		}
		r := w.relay(competing())
		stop := w.start(r)
		time.Sleep(30 * time.Second)
		if n := len(w.db.Delivered()); n != 3 {
			t.Errorf("%d settled, want the 3 before the failure", n)
		}
		down.Store(false)
		w.drained(20 * time.Second)
		status := r.Status(t.Context()).Databases[0]
		if status.Counts.Delivered != 5 {
			t.Errorf("%d counted as delivered, want 5", status.Counts.Delivered)
		}
		if got := fmt.Sprint(w.accepted()); got != "[0 1 2 3 4]" {
			t.Errorf("accepted %s", got)
		}
		stop()
	})
}

func TestCompeting_EventsWithoutARouteHoldNobody(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{relay.OnErrorStop, relay.OnErrorContinue} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				for i := range 30 {
					w.put("nowhere", "", fmt.Sprint(i))
				}
				w.put("orders", "k", "good")
				stop := w.start(w.relay(competing(batch(10), onError(mode)), func(c *relay.Config) { c.Routes[0].Topic = "orders" }))
				w.until(30*time.Second, "the event with a route", func() bool { return w.has("good") })
				for _, r := range w.db.Pending() {
					if r.Attempts > 0 {
						t.Error("an attempt was counted for a missing route")
					}
				}
				stop()
			})
		})
	}
}

func TestCompeting_PoliciesAndAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy        string
		err           error
		dead, blocked int
	}{
		"attempts run out, dead letter": {relay.OnFailureDeadLetter, relay.Rejected(errRefused), 1, 0},
		"attempts run out, block":       {relay.OnFailureBlock, relay.Rejected(errRefused), 0, 1},
		"permanent, dead letter":        {relay.OnFailureDeadLetter, relay.Permanent(errRefused), 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
					if isPoison(e) {
						return c.err
					}
					return nil
				}})
				w.put("orders", "k", "!")
				w.put("orders", "other", "good")
				stop := w.start(w.relay(competing(), func(cfg *relay.Config) { cfg.Routes[0].OnFailure, cfg.Routes[0].MaxAttempts = c.policy, 3 }))
				time.Sleep(time.Minute)
				blocked := 0
				for _, h := range w.db.Held() {
					if h.State == relay.HeldBlocked {
						blocked++
					}
				}
				if len(w.db.Dead()) != c.dead || blocked != c.blocked || !w.has("good") {
					t.Errorf("%d dead, %d blocked, accepted %q", len(w.db.Dead()), blocked, w.accepted())
				}
				stop()
			})
		})
	}
}

func TestCompeting_ADrainAndAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 10 * time.Millisecond, Verdict: refuseTimes("7", 1)})
		for i := range 20 {
			w.put("orders", "k", fmt.Sprint(i))
		}
		report, err := w.relay(competing(batch(5), onError(relay.OnErrorContinue))).Drain(t.Context())
		if err != nil || report.Delivered < 17 || len(report.Left) == 0 {
			t.Errorf("drain: %+v, %v", report, err)
		}
		n := w.node(nil, competing())
		w.drained(20 * time.Second)
		w.broker.Configure(func(c *memory.ServerConfig) { c.PerCall = time.Second })
		for i := range 3 {
			w.put("orders", "k", fmt.Sprint("late", i))
		}
		time.Sleep(800 * time.Millisecond)
		if took := n.stop(); took > 6*time.Second {
			t.Errorf("stopped after %v", took)
		}
		for _, r := range w.db.Pending() {
			if w.has(string(r.Payload)) {
				t.Errorf("%q was accepted and not settled", r.Payload)
			}
		}
	})
}

func TestS44_CompetingClaimsSurviveEveryError(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{})
			n := w.node(func(c fault.Call) fault.Fault {
				if c.Method != "Compete" || c.Number%3 == 0 {
					return fault.Fault{}
				}
				if lost {
					return fault.Fault{Lost: errDown}
				}
				return fault.Fault{Err: errDown}
			}, competing(batch(5)))
			for i := range 50 {
				w.put("orders", "k", fmt.Sprint(i))
			}
			w.drained(5 * time.Minute)
			if calls := n.in.Calls("Compete"); calls > 300 {
				t.Errorf("%d claims", calls)
			}
			n.stop()
		})
	}
}

// Without the time of the last settle /progressz would call a relay stalled that
// is at work, and without an answer at once each scrape would wait for a loop
// that competing claims do not have.
func TestCompeting_StatusSaysAtOnceWhenSomethingWasSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, memory.ServerConfig{Verdict: func(relay.Event) error {
			if down.Load() {
				return relay.Unavailable(errDown)
			}
			return nil
		}})
		r := w.relay(competing())
		stop := w.start(r)
		w.put("orders", "k", "1")
		time.Sleep(time.Minute)
		if at := r.Status(t.Context()).Databases[0].LastSettle; !at.IsZero() {
			t.Errorf("settled at %v, and the destination was down", at)
		}
		down.Store(false)
		w.drained(20 * time.Second)
		began := time.Now()
		d := r.Status(t.Context()).Databases[0]
		if took := time.Since(began); took > 0 {
			t.Errorf("the status took %v", took)
		}
		if began.Sub(d.LastSettle) > 20*time.Second {
			t.Errorf("last settle %v, now %v", d.LastSettle, began)
		}
		stop()
	})
}
