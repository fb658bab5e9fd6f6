package relay_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
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

// The guarantees of the design, as far as the engine is what keeps them.

func TestGuarantee1_AnEventIsPublishedOnlyIfItsTransactionCommittedAndEveryCommittedEventIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: time.Millisecond})
		n := w.node(nil)
		var mu sync.Mutex
		committed := map[string]bool{}
		var wg sync.WaitGroup
		for writer := range 16 {
			r := rand.New(rand.NewPCG(1, uint64(writer)))
			wg.Go(func() {
				for i := range 50 {
					tx := w.db.Begin()
					payload := fmt.Sprintf("%d/%d", writer, i)
					tx.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: fmt.Sprint(writer % 5)}, Payload: []byte(payload)})
					time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
					if r.IntN(20) == 0 {
						tx.Rollback()
						continue
					}
					mu.Lock()
					committed[payload] = true
					mu.Unlock()
					_ = tx.Commit()
				}
			})
		}
		wg.Wait()
		w.drained(10 * time.Second)
		got := map[string]int{}
		for _, p := range w.accepted() {
			got[p]++
			if !committed[p] || got[p] > 1 {
				t.Errorf("%q published, committed %v, %d times", p, committed[p], got[p])
			}
		}
		if len(got) != len(committed) {
			t.Errorf("%d of %d committed events published", len(got), len(committed))
		}
		n.stop()
	})
}

func TestGuarantee2_AtLeastOnceAndWithNoFaultThereAreNoDuplicatesHoweverManyRelaysRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 3 * time.Millisecond})
		nodes := []*node{w.node(nil)}
		for i := range 60 {
			for _, k := range keys(20) {
				w.put("orders", k, fmt.Sprintf("%s %d", k, i))
			}
			if i%10 == 5 {
				nodes = append(nodes, w.node(nil))
			}
			time.Sleep(700 * time.Millisecond)
		}
		w.drained(10 * time.Second)
		w.check(keys(20), 60)
		for _, n := range nodes {
			n.stop()
		}
	})
	t.Run("a lost acknowledgement repeats under the same event id", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{})
			n := w.node(fault.Script{{Method: "Publish", Call: 2, Fault: fault.Fault{Lost: errDown}}}.Plan())
			w.write("orders", keys(10), 3)
			w.drained(30 * time.Second)
			if duplicates := w.firsts(keys(10), 3); duplicates == 0 {
				t.Error("no duplicate of what was accepted and not acknowledged")
			}
			n.stop()
		})
	})
}

func TestGuarantee3_FirstDeliveriesOfOneKeyAreInOrder(t *testing.T) {
	t.Parallel()
	// Also with relays that own everything at once: order does not rest on leases.
	for name, shared := range map[string]bool{"with leases": true, "without leases": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					r, pauses := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
					var healed atomic.Bool
					var mu sync.Mutex
					w := newWorld(t, memory.ServerConfig{PerCall: time.Millisecond, Verdict: func(relay.Event) error {
						mu.Lock()
						defer mu.Unlock()
						if !healed.Load() && r.IntN(10) == 0 {
							return []error{relay.Rejected(errRefused), relay.Unavailable(errDown), errors.New("EOF")}[r.IntN(3)]
						}
						return nil
					}})
					rates := fault.Rates{Fail: 0.05, Lose: 0.05, Cut: 0.05, Delay: 0.3, MaxDelay: 300 * time.Millisecond}
					start := func(seed uint64) *node {
						return w.node(fault.Random(seed, rates), func(c *relay.Config) {
							c.Lease, c.PublishTimeout = 3*time.Second, time.Second
							c.Databases[0].Batch = 20
							if !shared {
								in := fault.New(fault.Random(seed, rates))
								c.Databases[0].Store = fault.NewStore(fault.WithoutLeases(w.db.Connect()), in)
							}
						})
					}
					nodes := []*node{start(seed * 10), start(seed*10 + 1), start(seed*10 + 2)}
					for i := range 20 {
						for _, k := range keys(8) {
							w.put("orders", k, fmt.Sprintf("%s %d", k, i))
						}
						time.Sleep(time.Duration(pauses.IntN(600)) * time.Millisecond)
						if i%8 == 7 {
							nodes[0].kill()
							nodes[0] = start(seed*10 + 3 + uint64(i))
						}
					}
					healed.Store(true)
					w.drained(10 * time.Minute)
					w.firsts(keys(8), 20)
					for _, n := range nodes {
						n.in.Use(nil)
						n.stop()
					}
				})
			}
		})
	}
}

func TestGuarantee4_AKeyThatFailsHoldsOnlyItself(t *testing.T) {
	t.Parallel()
	for class, failure := range map[string]error{"rejected": relay.Rejected(errRefused), "permanent": relay.Permanent(errRefused), "unknown": errDown} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
					if e.Key == "bad" {
						return failure
					}
					return nil
				}})
				stop := w.start(w.relay())
				w.write("orders", append(keys(10), "bad"), 5)
				w.until(15*time.Second, "the healthy keys", func() bool { return len(w.broker.Log()) == 50 })
				time.Sleep(10 * time.Second)
				w.put("orders", "k000", "k000 5")
				w.until(time.Second, "a later event", func() bool { return w.has("k000 5") })
				stop()
			})
		})
	}
}

func TestGuarantee5_ABrokerOutageNeverUsesUpAttemptsNeverMakesADeadLetterNeverStopsTheRelay(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault.Fault{"refused": {Err: relay.Unavailable(errDown)}, "hangs": {Hang: true}, "lost": {Lost: errDown}, "cut": {Events: 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				n := w.node(nil, func(c *relay.Config) { c.Routes[0].MaxAttempts, c.Routes[0].OnFailure = 1, relay.OnFailureDeadLetter })
				w.write("orders", keys(10), 2)
				time.Sleep(2 * time.Second)
				n.in.Use(fault.Script{{Method: "Publish", Fault: f}}.Plan())
				w.write("orders2", keys(10), 2)
				time.Sleep(5 * time.Minute)
				for _, r := range w.db.Pending() {
					if r.Attempts > 0 {
						t.Fatal("an attempt was counted")
					}
				}
				n.in.Use(nil)
				w.drained(time.Minute)
				w.empty()
				n.stop()
			})
		})
	}
}

func TestGuarantee6_PayloadBytesKeyAndHeaderValuesArriveExactlyAsWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		payloads := [][]byte{all, {}, nil, []byte(`{"a":1,"a":2, "n":1.0e2 }`)}
		for _, p := range payloads {
			w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "ключ \t%2F"}, Payload: p, Headers: map[string]string{"X-Y": " \u2028é "}})
		}
		stop := w.start(w.relay())
		w.drained(5 * time.Second)
		for i, a := range w.broker.Log() {
			if !bytes.Equal(a.Payload, payloads[i]) || (a.Payload == nil) != (payloads[i] == nil) || a.Key != "ключ \t%2F" || a.Headers["X-Y"] != " \u2028é " {
				t.Errorf("event %d arrived as %+v", i, a.Event)
			}
		}
		stop()
	})
}

func TestGuarantee7_ADeadLetterKeepsTheEventWholeWithItsCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cause := "too large\x00\xff" + strings.Repeat("é", 1<<20)
		w := newWorld(t, memory.ServerConfig{Verdict: func(relay.Event) error { return relay.Permanent(errors.New(cause)) }})
		row := w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k"}, Payload: []byte("\x00payload"), Headers: map[string]string{"a": "b"}})[0]
		stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].OnFailure = relay.OnFailureDeadLetter }))
		w.drained(5 * time.Second)
		dead := w.db.Dead()
		if len(dead) != 1 || dead[0].EventID != row.EventID || string(dead[0].Payload) != "\x00payload" || dead[0].Headers["a"] != "b" {
			t.Fatalf("dead %+v", dead)
		}
		if d := dead[0]; !strings.HasPrefix(d.Cause, "too large") || len(d.Cause) > 1000 || strings.ContainsRune(d.Cause, 0) || strings.ToValidUTF8(d.Cause, "") != d.Cause || d.Class == "" {
			t.Errorf("cause %q of class %q", d.Cause, d.Class)
		}
		stop()
	})
}
