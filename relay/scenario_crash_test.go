package relay_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

// sizes records the number of events of each call.
func sizes(into *[]int) fault.Plan {
	var mu sync.Mutex
	return func(c fault.Call) fault.Fault {
		if c.Method == "Publish" {
			mu.Lock()
			defer mu.Unlock()
			*into = append(*into, c.Events)
		}
		return fault.Fault{}
	}
}

func TestSlowStart_OneTwoFourAfterATakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: time.Millisecond})
		a := w.node(nil)
		time.Sleep(3 * time.Second)
		a.kill()
		w.write("orders", keys(60), 2)
		var calls []int
		b := w.node(sizes(&calls))
		w.drained(30 * time.Second)
		w.check(keys(60), 2)
		limit := 1
		for i, n := range calls {
			if n > limit {
				t.Errorf("call %d holds %d events: %v", i+1, n, calls)
			}
			limit *= 2
		}
		if len(calls) < 6 {
			t.Errorf("calls of %v events", calls)
		}
		b.stop()
	})
}

// What killed a relay is as likely in the share of those that only watched the
// eviction.
func TestSlowStart_OfEveryRelayThatTakesLanesOfADeadOne(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]int{"killed": 1, "stopped": 8} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{PerCall: 20 * time.Millisecond})
				var calls [3][]int
				var nodes []*node
				for i := range calls {
					nodes = append(nodes, w.node(sizes(&calls[i])))
					time.Sleep(5*time.Second + 70*time.Millisecond)
				}
				w.write("orders", keys(300), 10) // now they know how much a call may hold
				w.drained(time.Minute)
				if how == "killed" {
					nodes[0].kill()
				} else {
					nodes[0].stop()
				}
				time.Sleep(20 * time.Second)
				before := [3]int{0, len(calls[1]), len(calls[2])}
				for _, k := range keys(300) {
					w.put("orders", k, k+" 10")
				}
				w.drained(time.Minute)
				for i, n := range nodes[1:] {
					after := calls[i+1][before[i+1]:]
					if (after[0] == 1) != (want == 1) || after[0] < want {
						t.Errorf("relay %d: calls of %v events", i+1, after)
					}
					n.stop()
				}
			})
		})
	}
}

func TestSuspect_AnEventAloneAtThreeCrashesIsBlocked(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"with a key": "bad", "without a key": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				var n *node
				var kills atomic.Int64
				var current atomic.Pointer[node]
				restart := func() {
					n = w.node(nil, func(c *relay.Config) {
						in := c.Brokers["default"]
						current.Store(nil)
						c.Routes[0].OnFailure = relay.OnFailureDeadLetter
						c.Brokers["default"] = publishFunc{in, func(ctx context.Context, events []relay.Event) []error {
							for _, e := range events {
								if isPoison(e) {
									kills.Add(1)
									for current.Load() == nil {
										time.Sleep(time.Millisecond)
									}
									current.Load().in.Crash()
								}
							}
							return in.Publish(ctx, events)
						}}
					})
				}
				w.put("orders", "k000", "k000 0")
				w.put("orders", key, "!kills")
				w.put("orders", "k001", "k001 0")
				restart()
				current.Store(n)
				for range 10 {
					time.Sleep(15 * time.Second)
					if n.in.Crashed() {
						n.stop()
						restart()
						current.Store(n)
					}
				}
				if kills.Load() > 5 {
					t.Errorf("%d crashes", kills.Load())
				}
				held := w.db.Held()
				if len(held) != 1 || held[0].State != relay.HeldBlocked || !strings.Contains(held[0].LastError, "suspect") {
					t.Errorf("held %+v, want the suspect, blocked", held)
				}
				if n := len(w.db.Dead()); n > 0 {
					t.Error("a suspect became a dead letter")
				}
				if !w.has("k000 0") || !w.has("k001 0") {
					t.Errorf("accepted %q", w.accepted())
				}
				n.stop()
			})
		})
	}
}

func TestPanic_IsTheEventsOwnFailure(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"blocked": relay.OnFailureBlock, "dead": relay.OnFailureDeadLetter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
					if isPoison(e) {
						panic("index out of range")
					}
					return nil
				}})
				stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].OnFailure = policy }))
				w.put("orders", "bad", "!")
				w.put("orders", "bad", "bad 0")
				w.write("orders", keys(30), 3)
				time.Sleep(20 * time.Second)
				want := 90
				if policy == relay.OnFailureDeadLetter {
					want++ // what waited behind it goes on
				}
				if n := len(w.broker.Log()); n != want {
					t.Errorf("%d accepted, want %d", n, want)
				}
				if policy == relay.OnFailureDeadLetter {
					if dead := w.db.Dead(); len(dead) != 1 || !strings.Contains(dead[0].Cause, "panic") {
						t.Errorf("dead %+v", dead)
					}
				} else if held := w.db.Held(); len(held) != 2 || held[0].State != relay.HeldBlocked {
					t.Errorf("held %+v", held)
				}
				stop()
			})
		})
	}
}

func TestS18_PolicyBlockAndPolicyDeadLetter(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"block": relay.OnFailureBlock, "dead letter": relay.OnFailureDeadLetter, "default": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var refuse atomic.Bool
				refuse.Store(true)
				var tries atomic.Int64
				w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
					if isPoison(e) && refuse.Load() {
						tries.Add(1)
						return relay.Rejected(errRefused)
					}
					return nil
				}})
				r := w.relay(func(c *relay.Config) { c.Routes[0].OnFailure, c.Routes[0].MaxAttempts = policy, 3 })
				stop := w.start(r)
				for _, payload := range []string{"!A", "B", "C"} {
					w.put("orders", "k1", payload)
				}
				w.put("orders", "", "!keyless")
				w.put("orders", "k2", "D")
				time.Sleep(time.Minute)
				blocks := policy != relay.OnFailureDeadLetter
				if got := tries.Load(); got != 6 {
					t.Errorf("%d tries of two poisons with three attempts each", got)
				}
				if w.has("B") == blocks || w.has("C") == blocks || !w.has("D") {
					t.Errorf("accepted %q", w.accepted())
				}
				wantDead := map[string]int{relay.OnFailureBlock: 0, relay.OnFailureDeadLetter: 2, "": 1}[policy]
				if n := len(w.db.Dead()); n != wantDead {
					t.Errorf("%d dead letters, want %d", n, wantDead)
				}
				report := r.Status(t.Context()).Databases[0].Report
				if blocks && report.BlockedKeys != 1 {
					t.Errorf("%d blocked keys reported", report.BlockedKeys)
				}
				stop()
			})
		})
	}
}

func TestS19_AReplayIsByteIdenticalUnderItsOwnDedupID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		w := newWorld(t, memory.ServerConfig{Dedup: time.Hour, Verdict: func(e relay.Event) error {
			if e.Key == "k" && refuse.Load() {
				return relay.Permanent(errRefused)
			}
			return nil
		}})
		stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].OnFailure = relay.OnFailureDeadLetter }))
		payload := "{\"zebra\":1,\"a\":2,\"a\":3,\x00\xff }"
		row := w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k"}, Payload: []byte(payload), Headers: map[string]string{"h": " v "}})[0]
		time.Sleep(2 * time.Second)
		if n := len(w.db.Dead()); n != 1 {
			t.Fatalf("%d dead letters", n)
		}
		refuse.Store(false)
		for generation := 1; generation <= 3; generation++ {
			ref := row.Ref
			ref.ID = relay.RowID{}
			for _, d := range w.db.Dead() {
				ref = d.Ref
			}
			for _, d := range w.db.Delivered() {
				ref = d.Ref
			}
			if n := w.db.Replay(ref); n != 1 {
				t.Fatalf("%d replayed", n)
			}
			w.drained(5 * time.Second)
		}
		log := w.broker.Log()
		if len(log) != 3 {
			t.Fatalf("%d sent for 3 replays", len(log))
		}
		for _, a := range log {
			if string(a.Payload) != payload || a.Key != "k" || a.Identity != row.EventID.String() || a.Headers["h"] != " v " {
				t.Errorf("replayed as %+v", a.Event)
			}
		}
		stop()
	})
}

func TestS17_WhatIsInFlightIsNotSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 500 * time.Millisecond})
		nodes := []*node{w.node(nil), w.node(nil), w.node(nil)}
		time.Sleep(10 * time.Second)
		w.write("orders", keys(100), 1)
		for range 20 { // every look at the table while they are in flight
			time.Sleep(50 * time.Millisecond)
			w.put("wake", "", "x")
		}
		w.drained(time.Minute)
		if n := len(w.broker.Log()); n != 120 {
			t.Errorf("%d published, want 120", n)
		}
		for _, n := range nodes {
			n.stop()
		}
	})
}
