package relay_test

import (
	"context"
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

func TestS98_StopIsNeverWorseThanACrash(t *testing.T) {
	t.Parallel()
	for _, drain := range []time.Duration{time.Nanosecond, 100 * time.Millisecond, 5 * time.Second} {
		for _, latency := range []time.Duration{0, time.Second, 10 * time.Second} {
			t.Run(fmt.Sprintf("drain %v latency %v", drain, latency), func(t *testing.T) {
				t.Parallel()
				for run := range 12 {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, memory.ServerConfig{PerCall: latency})
						change := func(c *relay.Config) {
							c.DrainTimeout, c.PublishTimeout, c.Lease = drain, 15*time.Second, 30*time.Second
						}
						n := w.node(nil, change)
						w.write("orders", keys(20), 3)
						time.Sleep(time.Duration(run*run) * 97 * time.Millisecond)
						if took := n.stop(); took > drain+time.Second {
							t.Errorf("stopped after %v", took)
						}
						for _, r := range w.db.Pending() {
							if r.Attempts > 0 {
								t.Errorf("stopping counted an attempt")
							}
						}
						if m := w.db.Members(); len(m) > 0 {
							t.Errorf("%d leases left", len(m))
						}
						n = w.node(nil, change)
						w.drained(10 * time.Minute)
						duplicates := w.firsts(keys(20), 3)
						if drain > latency && duplicates > 0 {
							t.Errorf("%d duplicates after a stop that had the time", duplicates)
						}
						w.empty()
						n.stop()
					})
				}
			})
		}
	}
}

func TestS98_AStopDuringASlowStartCountsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 3 * time.Second})
		n := w.node(nil)
		w.write("orders", keys(5), 2)
		time.Sleep(time.Second)
		n.kill()
		n = w.node(nil, func(c *relay.Config) { c.DrainTimeout = time.Second })
		w.until(30*time.Second, "a call of the new relay", func() bool { return n.in.Calls("Publish") == 1 })
		if took := n.stop(); took > 2*time.Second {
			t.Errorf("stopped after %v", took)
		}
		for _, r := range w.db.Pending() {
			if r.Attempts > 0 {
				t.Errorf("event %s: %d attempts, %q", r.EventID, r.Attempts, r.LastError)
			}
		}
	})
}

func TestS98_StopWithEverythingHanging(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Fetch", "Settle", "Publish", "Renew", "HeldKeys", "Leave", "Keep"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				n := w.node(nil, func(c *relay.Config) { c.DrainTimeout = 2 * time.Second })
				time.Sleep(3 * time.Second)
				n.in.Use(fault.Script{{Method: method, Fault: fault.Fault{Hang: true}}}.Plan())
				w.write("orders", keys(5), 2)
				time.Sleep(11 * time.Second)
				if took := n.stop(); took > 3*time.Second {
					t.Errorf("stopped after %v", took)
				}
			})
		})
	}
}

func TestS98_APublishThatNeverReturnsDoesNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(nil, func(c *relay.Config) { c.DrainTimeout = time.Second })
		time.Sleep(2 * time.Second)
		stuck := make(chan struct{})
		w.broker.Configure(func(c *memory.ServerConfig) {
			c.Verdict = func(relay.Event) error { <-stuck; return errDown }
		})
		w.put("orders", "k", "k 0")
		time.Sleep(2 * time.Second)
		if took := n.stop(); took > 3*time.Second {
			t.Errorf("stopped after %v", took)
		}
		close(stuck)
		time.Sleep(time.Minute) // what outlived Run ends by itself
	})
}

func TestOverdue_ARelayWhosePublishNeverReturnsLosesItsLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stuck := make(chan struct{})
		a := w.node(nil, func(c *relay.Config) {
			b := w.broker.Connect()
			c.Brokers["default"] = publishFunc{b, func(ctx context.Context, events []relay.Event) []error {
				if events[0].Topic == "stuck" {
					<-stuck
				}
				return b.Publish(ctx, events)
			}}
		})
		time.Sleep(3 * time.Second)
		w.put("stuck", "k", "k 0")
		b := w.node(nil)
		w.until(time.Minute, "the event by another relay", func() bool { return w.has("k 0") })
		w.write("orders", keys(20), 2)
		w.until(5*time.Second, "the others", func() bool { return len(w.broker.Log()) >= 41 })
		close(stuck)
		time.Sleep(30 * time.Second)
		w.inOrder(map[string]int{"k": 1, "k000": 2})
		w.empty()
		a.stop()
		b.stop()
	})
}

// publishFunc is a broker with another Publish.
type publishFunc struct {
	relay.Broker
	publish func(context.Context, []relay.Event) []error
}

func (p publishFunc) Publish(ctx context.Context, events []relay.Event) []error {
	return p.publish(ctx, events)
}

func TestS99_WhatWasAcknowledgedIsSettledAfterTheEndOfRun(t *testing.T) {
	t.Parallel()
	for run := range 100 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{PerCall: 10 * time.Millisecond})
			w.write("orders", keys(10), 2)
			var n *node
			cut := func(c fault.Call) fault.Fault {
				if c.Method == "Publish" && c.Number == run%8+1 {
					n.cancel() // between the acknowledgement and the mark
				}
				return fault.Fault{}
			}
			in := make(chan struct{})
			n = w.node(func(c fault.Call) fault.Fault { <-in; return cut(c) })
			close(in)
			time.Sleep(time.Duration(run) * time.Millisecond)
			n.stop()
			again := w.node(nil)
			time.Sleep(5 * time.Second)
			w.check(keys(10), 2)
			w.empty()
			again.stop()
		})
	}
}

func TestS100_LanesOfAKilledRelayMoveWithinTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 50 * time.Millisecond})
		a := w.node(nil)
		w.write("orders", keys(50), 5)
		time.Sleep(300 * time.Millisecond)
		b := w.node(nil)
		a.kill()
		w.until(13*time.Second, "everything, by the other relay", func() bool { return len(w.db.Pending()) == 0 })
		w.firsts(keys(50), 5)
		b.stop()
	})
}

func TestS100_ALongPublishIsNotStolen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 4 * time.Second})
		short := func(c *relay.Config) { c.Lease, c.PublishTimeout = 10*time.Second, 5*time.Second }
		a, b := w.node(nil, short), w.node(nil, short)
		time.Sleep(10 * time.Second)
		w.write("orders", keys(30), 3)
		time.Sleep(2 * time.Minute)
		w.check(keys(30), 3)
		w.empty()
		a.stop()
		b.stop()
	})
}

func TestS101_OnePoisonIsTriedOnItsScheduleOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if isPoison(e) {
				tries.Add(1)
				return relay.Rejected(errRefused)
			}
			return nil
		}})
		n := w.node(nil)
		w.put("orders", "bad", "!")
		w.write("orders", keys(100), 10)
		w.until(2*time.Second, "the good ones", func() bool { return len(w.broker.Log()) == 1000 })
		time.Sleep(time.Minute)
		if got := tries.Load(); got < 5 || got > 7 { // at 0, 1, 3, 7, 15, 31 s
			t.Errorf("%d tries in a minute", got)
		}
		before := n.in.Calls("Fetch") + n.in.Calls("Settle") + n.in.Calls("ReadKeys") + n.in.Calls("HeldKeys") + n.in.Calls("Arm")
		time.Sleep(time.Minute)
		after := n.in.Calls("Fetch") + n.in.Calls("Settle") + n.in.Calls("ReadKeys") + n.in.Calls("HeldKeys") + n.in.Calls("Arm")
		if after-before > 300 {
			t.Errorf("%d statements in a minute of waiting", after-before)
		}
		n.stop()
	})
}

func TestS102_RecoveryBeginsWithAProbeAndDoubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		w := newWorld(t, memory.ServerConfig{PerCall: 10 * time.Millisecond})
		var mu sync.Mutex
		var sizes []int
		n := w.node(func(c fault.Call) fault.Fault {
			if c.Method != "Publish" {
				return fault.Fault{}
			}
			if down.Load() {
				return fault.Fault{Err: relay.Unavailable(errDown)}
			}
			mu.Lock()
			defer mu.Unlock()
			sizes = append(sizes, c.Events)
			return fault.Fault{}
		}, func(c *relay.Config) { c.Routes[0].MaxAttempts, c.Routes[0].OnFailure = 5, relay.OnFailureDeadLetter })
		w.write("orders", keys(100), 10)
		time.Sleep(10 * time.Minute)
		calls := n.in.Calls("Publish")
		if calls > 4*60 { // four probes each 15 s, and those of the beginning
			t.Errorf("%d calls in ten minutes of an outage", calls)
		}
		for _, r := range w.db.Pending() {
			if r.Attempts > 0 {
				t.Fatal("an attempt was counted")
			}
		}
		down.Store(false)
		time.Sleep(30 * time.Second)
		w.check(keys(100), 10)
		w.empty()
		limit := 1
		for i, size := range sizes {
			if size > limit {
				t.Fatalf("call %d of the recovery holds %d events: %v", i+1, size, sizes)
			}
			limit = min(2*limit, 1<<20)
		}
		n.stop()
	})
}
