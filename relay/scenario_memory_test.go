package relay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func TestMemory_IsBoundedWhateverTheBacklog(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]func(relay.Event) error{
		"healthy": nil,
		"down":    func(relay.Event) error { return relay.Unavailable(errDown) },
		"refused": func(e relay.Event) error { return relay.Rejected(errRefused) },
	} {
		for _, template := range []string{"", "q-{key}"} {
			t.Run(name+" "+template, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, memory.ServerConfig{PerEvent: time.Millisecond, Verdict: verdict, Destination: func(e relay.Event) string { return e.Destination }})
					for i := range 300 {
						size := []int{10, 1000, 40_000}[i%3]
						w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: fmt.Sprintf("k%d", i%40)}, Payload: make([]byte, size)})
					}
					const budget, largest = 1 << 20, 41_000
					n := w.node(nil, func(c *relay.Config) { c.Memory, c.Routes[0].Destination = budget, template })
					peak := int64(0)
					for range 3000 {
						peak = max(peak, n.status().MemoryBytes)
						time.Sleep(5 * time.Millisecond)
					}
					// Reads of closed keys are bounded apart, by the store.
					if limit := int64(budget + largest); name != "refused" && peak > limit {
						t.Errorf("%d bytes in memory, the budget is %d", peak, int64(budget))
					}
					if name == "refused" && peak > budget+16<<20 {
						t.Errorf("%d bytes in memory", peak)
					}
					n.stop()
				})
			})
		}
	}
}

func TestMemory_ARowLargerThanTheBudgetIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		for i := range 5 {
			w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k"}, Payload: make([]byte, 3<<20+i)})
		}
		stop := w.start(w.relay(func(c *relay.Config) { c.Memory = 1 << 20 }))
		w.drained(10 * time.Second)
		for i, a := range w.broker.Log() {
			if len(a.Payload) != 3<<20+i {
				t.Errorf("event %d out of order", i)
			}
		}
		stop()
	})
}

func TestScheduled_ArePromotedInOrderAndHoldNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stop := w.start(w.relay())
		time.Sleep(3 * time.Second)
		now := time.Now()
		for _, after := range []int{30, 10, 20} {
			w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k"}, Payload: fmt.Appendf(nil, "after %d", after), Available: now.Add(time.Duration(after) * time.Second)})
		}
		w.put("orders", "k", "at once")
		w.until(time.Second, "the event behind scheduled ones", func() bool { return w.has("at once") })
		time.Sleep(40 * time.Second)
		if got := strings.Join(w.accepted(), ", "); got != "at once, after 10, after 20, after 30" {
			t.Errorf("accepted %s", got)
		}
		for _, a := range w.broker.Log()[1:] {
			var after int
			_, _ = fmt.Sscanf(string(a.Payload), "after %d", &after)
			if late := a.At.Sub(now) - time.Duration(after)*time.Second; late < 0 || late > 600*time.Millisecond {
				t.Errorf("%q came %v late", a.Payload, late)
			}
		}
		stop()
	})
}

func TestDrain_ReportsWhatItLeft(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdict error
		prepare func(*world)
		config  func(*relay.Config)
		want    string
	}{
		"unavailable":         {verdict: relay.Unavailable(errDown), want: "connection refused"},
		"unavailable, by key": {verdict: relay.Unavailable(errDown), config: func(c *relay.Config) { c.Routes[0].Destination = "q-{key}" }, want: "connection refused"},
		"refused":             {verdict: relay.Rejected(errRefused), want: "held"},
		"blocked":             {verdict: relay.Permanent(errRefused), want: "blocked"},
		"no route":            {config: func(c *relay.Config) { c.Routes[0].Topic = "other" }, want: "no route"},
		"paused topic":        {prepare: func(w *world) { w.db.Pause(relay.Control{Kind: "topic", Name: "orders"}) }, want: "paused"},
		"paused destination":  {prepare: func(w *world) { w.db.Pause(relay.Control{Kind: "destination", Name: "q-k000"}) }, config: func(c *relay.Config) { c.Routes[0].Destination = "q-{key}" }, want: "paused"},
		"competing, refused":  {verdict: relay.Rejected(errRefused), config: competing(), want: "held"},
		"competing, no route": {config: func(c *relay.Config) { c.Routes[0].Topic = "other"; competing()(c) }, want: "no route"},
		"refused after failure": {want: "held", prepare: func(w *world) {
			first := true
			w.broker.Configure(func(c *memory.ServerConfig) {
				c.Verdict = func(relay.Event) error {
					if first {
						first = false
						return relay.Unavailable(errDown)
					}
					return relay.Rejected(errRefused)
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Destination: func(e relay.Event) string { return e.Destination }})
				if c.verdict != nil {
					w.broker.Configure(func(s *memory.ServerConfig) { s.Verdict = func(relay.Event) error { return c.verdict } })
				}
				if c.prepare != nil {
					c.prepare(w)
				}
				w.write("orders", keys(1), 2)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				config := c.config
				if config == nil {
					config = func(*relay.Config) {}
				}
				report, err := w.relay(config).Drain(ctx)
				if err != nil {
					t.Fatalf("drain: %v", err)
				}
				if left := fmt.Sprint(report.Left); !strings.Contains(left, c.want) {
					t.Errorf("left %s, want %q", left, c.want)
				}
				for _, r := range w.db.Pending() {
					if r.Attempts > 1 {
						t.Errorf("%d attempts in one pass", r.Attempts)
					}
				}
			})
		})
	}
}

func TestDrain_StandsByWhileAnotherRelayOwnsEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(nil, func(c *relay.Config) { c.Active = 1; c.Routes[0].Topic = "none" })
		time.Sleep(3 * time.Second)
		w.write("orders", keys(3), 1)
		began := time.Now()
		report, err := w.relay(func(c *relay.Config) { c.Active = 1 }).Drain(t.Context())
		if err != nil || len(report.Left) == 0 || time.Since(began) > time.Minute {
			t.Errorf("drain: %+v, %v after %v", report, err, time.Since(began))
		}
		n.stop()
	})
}

func TestKeyless_EachFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if isPoison(e) {
				return relay.Rejected(errRefused)
			}
			return nil
		}})
		stop := w.start(w.relay())
		for i := range 200 {
			payload := fmt.Sprintf("good %d", i)
			if i%4 == 0 {
				payload = fmt.Sprintf("!bad %d", i)
			}
			w.put("orders", "", payload)
		}
		w.until(2*time.Second, "the good ones", func() bool { return len(w.broker.Log()) == 150 })
		time.Sleep(20 * time.Second)
		for _, h := range w.db.Held() {
			if h.State != relay.HeldRetry || h.Attempts < 4 {
				t.Errorf("held %+v", h)
			}
		}
		if n := len(w.db.Held()); n != 50 {
			t.Errorf("%d held", n)
		}
		stop()
	})
}

func TestNoRoute_EventsWaitAndAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(nil, func(c *relay.Config) { c.Routes[0].Topic = "orders.*" })
		for i := range 3 {
			w.put("strange", "k", fmt.Sprint(i))
		}
		w.put("orders.eu", "k", "k 0")
		time.Sleep(10 * time.Second)
		if s := n.status(); len(s.NoRoute) != 1 || s.NoRoute[0] != "strange" {
			t.Errorf("no route for %q", s.NoRoute)
		}
		if got := w.accepted(); len(got) != 1 || len(w.db.Pending()) != 3 || len(w.db.Held()) != 0 {
			t.Errorf("accepted %q, %d pending", got, len(w.db.Pending()))
		}
		n.stop()
	})
}

func TestLeaseLostWhileACallIsOut_WhatWasAcceptedIsSettled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 3 * time.Second})
		n := w.node(nil)
		time.Sleep(3 * time.Second)
		w.write("orders", keys(3), 1)
		time.Sleep(time.Second)
		for _, m := range w.db.Members() { // another relay took it as dead
			if err := w.db.Leave(t.Context(), m.Fence); err != nil {
				t.Fatal(err)
			}
		}
		w.drained(time.Minute)
		w.check(keys(3), 1)
		n.stop()
	})
}

func TestCallSize_FitsHalfThePublishTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ perCall, perEvent time.Duration }{
		"slow events": {0, 20 * time.Millisecond}, "slow answers": {1500 * time.Millisecond, 0}, "both": {time.Second, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{PerCall: c.perCall, PerEvent: c.perEvent})
				var calls []int
				n := w.node(sizes(&calls))
				w.write("orders", keys(1500), 1)
				w.drained(3 * time.Minute)
				w.check(keys(1500), 1) // a call that timed out would have repeated some
				most := 0
				for _, size := range calls {
					most = max(most, size)
				}
				if most < 50 {
					t.Errorf("calls of at most %d events: %v", most, calls)
				}
				n.stop()
			})
		})
	}
}

func TestRetryAt_GrowsFromOneSecondToAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time // one event, so one call at a time
		w := newWorld(t, memory.ServerConfig{Verdict: func(relay.Event) error { at = append(at, time.Now()); return relay.Rejected(errors.New("no")) }})
		stop := w.start(w.relay())
		w.put("orders", "k", "k 0")
		time.Sleep(10 * time.Minute)
		want := time.Second
		for i := 1; i < len(at); i++ {
			if wait := at[i].Sub(at[i-1]); wait < want || wait > want+want/8+200*time.Millisecond {
				t.Errorf("try %d after %v, want about %v", i+1, wait, want)
			}
			want = min(2*want, time.Minute)
		}
		if held := w.db.Held(); held[0].Attempts != len(at) {
			t.Errorf("%d attempts after %d refusals", held[0].Attempts, len(at))
		}
		stop()
	})
}
