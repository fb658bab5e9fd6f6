package relay_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

func TestS72_EveryVectorOfOutcomes(t *testing.T) {
	t.Parallel()
	for class, failure := range map[string]error{
		"rejected": relay.Rejected(errRefused), "unavailable": relay.Unavailable(errDown), "unknown": errDown,
		"permanent": relay.Permanent(errRefused), "throttled": relay.RetryAfter(errDown, 2*time.Second),
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			for vector := range 32 {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					failed := map[string]bool{}
					w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
						var key string
						var i int
						_, _ = fmt.Sscanf(string(e.Payload), "%1s %d", &key, &i)
						mu.Lock()
						defer mu.Unlock()
						if e.Topic == "orders" && vector&(1<<i) != 0 && !failed[string(e.Payload)] {
							failed[string(e.Payload)] = true
							return failure
						}
						return nil
					}})
					stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].OnFailure = relay.OnFailureDeadLetter }))
					w.write("warm", keys(50), 3) // so that the five are one call
					time.Sleep(2 * time.Second)
					for i := range 5 {
						w.put("orders", []string{"a", "b"}[i%2], fmt.Sprintf("%s %d", []string{"a", "b"}[i%2], i))
					}
					w.drained(3 * time.Minute)
					at := map[string]int{"a": -1, "b": -1}
					got := map[int]int{}
					for _, e := range w.broker.Log() {
						if e.Topic != "orders" {
							continue
						}
						var key string
						var i int
						_, _ = fmt.Sscanf(string(e.Payload), "%1s %d", &key, &i)
						if i <= at[key] {
							t.Errorf("vector %05b: %d after %d of key %s", vector, i, at[key], key)
						}
						at[key] = i
						got[i]++
					}
					dead := map[int]bool{}
					for _, d := range w.db.Dead() {
						var key string
						var i int
						_, _ = fmt.Sscanf(string(d.Payload), "%1s %d", &key, &i)
						dead[i] = true
					}
					for i := range 5 {
						wantDead := class == "permanent" && vector&(1<<i) != 0
						if dead[i] != wantDead || got[i] != 1 && !wantDead {
							t.Errorf("vector %05b: event %d delivered %d times, dead %v", vector, i, got[i], dead[i])
						}
					}
					stop()
				})
			}
		})
	}
}

func TestS75_FailuresOfTheDestinationCountNothing(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{
		"authentication": relay.Unavailable(errors.New("authentication failed")),
		"unknown":        errors.New("EOF"),
		"throttled":      relay.RetryAfter(errors.New("429"), 5*time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				var down atomic.Bool
				down.Store(true)
				n := w.node(func(c fault.Call) fault.Fault {
					if c.Method == "Publish" && down.Load() {
						return fault.Fault{Err: failure}
					}
					return fault.Fault{}
				}, func(c *relay.Config) { c.Routes[0].MaxAttempts, c.Routes[0].OnFailure = 5, relay.OnFailureDeadLetter })
				w.write("orders", keys(100), 10)
				for i := range 20 {
					w.put("orders", "", fmt.Sprintf("keyless %d", i))
				}
				time.Sleep(time.Minute)
				if calls := n.in.Calls("Publish"); calls > 50 {
					t.Errorf("%d calls in a minute", calls)
				}
				if name == "throttled" {
					if calls := n.in.Calls("Publish"); calls > 13 {
						t.Errorf("%d calls in a minute to a destination that asks for 5 s between them", calls)
					}
				}
				if len(w.db.Held()) > 0 || len(w.db.Dead()) > 0 {
					t.Errorf("%d held, %d dead", len(w.db.Held()), len(w.db.Dead()))
				}
				down.Store(false)
				w.drained(time.Minute)
				w.empty()
				w.inOrder(map[string]int{"k000": 10, "k099": 10})
				n.stop()
			})
		})
	}
}

func TestRetryAfter_IsRespectedAndCapped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asked, least, most time.Duration }{
		"a moment":  {5 * time.Second, 5 * time.Second, 6 * time.Second},
		"very long": {1000 * time.Hour, time.Hour, 67 * time.Minute},
		"negative":  {-time.Second, 90 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var at []time.Time
				w := newWorld(t, memory.ServerConfig{})
				n := w.node(func(call fault.Call) fault.Fault {
					if call.Method != "Publish" {
						return fault.Fault{}
					}
					mu.Lock()
					defer mu.Unlock()
					at = append(at, time.Now())
					if call.Number == 1 {
						return fault.Fault{Err: relay.RetryAfter(errDown, c.asked)}
					}
					return fault.Fault{}
				})
				w.write("orders", keys(10), 1)
				time.Sleep(c.most + time.Minute)
				w.check(keys(10), 1)
				if wait := at[1].Sub(at[0]); wait < c.least || wait > c.most {
					t.Errorf("called again after %v", wait)
				}
				n.stop()
			})
		})
	}
}

func TestS71_NothingLeavesBeforeItIsAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(fault.Script{{Method: "Publish", Fault: fault.Fault{Err: relay.Unavailable(errDown)}}}.Plan())
		w.write("orders", keys(100), 1)
		time.Sleep(30 * time.Second)
		if pending := len(w.db.Pending()); pending != 100 {
			t.Errorf("%d pending, want 100", pending)
		}
		n.in.Use(nil)
		w.drained(30 * time.Second)
		w.check(keys(100), 1)
		n.stop()
	})
}
