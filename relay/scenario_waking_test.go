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

// trips counts the calls of a node that reach the database.
func (n *node) trips() int {
	sum := 0
	for _, m := range storeMethods {
		sum += n.in.Calls(m)
	}
	return sum
}

func TestDoorbell_RoundTripsIdleAtFiveAndAtFiveHundredASecond(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		every time.Duration
		most  int // a second
	}{
		"idle": {0, 4}, "5 a second": {200 * time.Millisecond, 40}, "500 a second": {2 * time.Millisecond, 1800},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				n := w.node(nil)
				time.Sleep(10 * time.Second)
				const seconds = 8
				before := n.trips()
				began := time.Now()
				if c.every == 0 {
					time.Sleep(seconds * time.Second)
				}
				worst := time.Duration(0)
				for i := 0; c.every > 0 && time.Since(began) < seconds*time.Second; i++ {
					w.put("orders", "", fmt.Sprint(i))
					time.Sleep(c.every)
				}
				rate := (n.trips() - before) / seconds
				if rate > c.most {
					t.Errorf("%d round trips a second, at most %d are fine", rate, c.most)
				}
				time.Sleep(time.Second)
				for _, a := range w.broker.Log() {
					worst = max(worst, a.At.Sub(a.Created))
				}
				if worst > 50*time.Millisecond {
					t.Errorf("an event waited for %v", worst)
				}
				n.stop()
			})
		})
	}
}

func TestDoorbell_DoesNotArmWhileRowsComeFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(nil)
		time.Sleep(5 * time.Second)
		wakeups := int64(0)
		for i := range 2000 {
			if i == 500 {
				wakeups = n.status().Counts.Wakeups
			}
			w.put("orders", "", fmt.Sprint(i))
			time.Sleep(2 * time.Millisecond)
		}
		if more := n.status().Counts.Wakeups - wakeups; more > 5 {
			t.Errorf("rung %d times in 1,500 commits under load", more)
		}
		n.stop()
	})
}

func TestS48_WakeUpsAreCoalesced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		var nodes []*node
		for range 8 {
			nodes = append(nodes, w.node(nil))
		}
		time.Sleep(20 * time.Second)
		before := 0
		for _, n := range nodes {
			before += n.in.Calls("Fetch")
		}
		for i := range 100 {
			w.put("orders", fmt.Sprintf("k%d", i), fmt.Sprintf("k%d 0", i))
			time.Sleep(100 * time.Millisecond)
		}
		after := 0
		for _, n := range nodes {
			after += n.in.Calls("Fetch")
		}
		// One fetch for each relay and ring, one that finds nothing more and
		// arms again, and the polls of ten seconds.
		if most := 100*(2*8+2) + 10*3*8; after-before > most {
			t.Errorf("%d fetches of 8 relays for 100 events, at most %d are fine", after-before, most)
		}
		w.drained(5 * time.Second)
		for _, n := range nodes {
			n.stop()
		}
	})
}

func TestDoorbell_ALostConnectionCostsOnlyAPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(fault.Script{{Method: "Arm", Fault: fault.Fault{Err: errDown}}}.Plan())
		time.Sleep(5 * time.Second)
		for i := range 20 {
			w.db.HangUp()
			payload := fmt.Sprintf("k %d", i)
			w.put("orders", "k", payload)
			w.until(600*time.Millisecond, payload, func() bool { return w.has(payload) })
			time.Sleep(1300 * time.Millisecond)
		}
		n.stop()
	})
}

func TestS24_AFetchThatFindsNothingToSendBacksOff(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]func(*world){
		"blocked topic": func(w *world) { w.db.Pause(relay.Control{Kind: "topic", Name: "orders"}) },
		"no route":      func(*world) {},
		"down": func(w *world) {
			w.broker.Configure(func(c *memory.ServerConfig) { c.Verdict = func(relay.Event) error { return errDown } })
		},
		"held": func(w *world) {
			w.broker.Configure(func(c *memory.ServerConfig) {
				c.Verdict = func(relay.Event) error { return relay.Rejected(errRefused) }
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{Destination: func(e relay.Event) string { return e.Destination }})
				state(w)
				n := w.node(nil, func(c *relay.Config) {
					if name == "no route" {
						c.Routes[0].Topic = "other"
					}
				})
				w.write("orders", keys(80), 3)
				time.Sleep(2 * time.Minute)
				before := n.trips()
				time.Sleep(time.Minute)
				if rate := (n.trips() - before) / 60; rate > 20 {
					t.Errorf("%d round trips a second with nothing to send", rate)
				}
				n.stop()
			})
		})
	}
}

// Guarantee 3 while fetches are slow, which is when a fetch would gain from not
// looking at low ids: the second event of the key was written after the first
// one's transaction had committed, whose id is far below all others.
func TestS06_ALateCommitIsNotOvertakenByItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		var slow atomic.Bool
		n := w.node(func(c fault.Call) fault.Fault {
			if c.Method == "Fetch" && slow.Load() {
				return fault.Fault{Before: 80 * time.Millisecond}
			}
			return fault.Fault{}
		})
		late := w.db.Begin()
		late.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "late"}, Payload: []byte("late 0")})
		slow.Store(true)
		for i := range 200 {
			w.put("orders", "k", fmt.Sprintf("k %d", i))
			time.Sleep(100 * time.Millisecond)
		}
		if err := late.Commit(); err != nil {
			t.Fatal(err)
		}
		w.put("orders", "late", "late 1")
		w.drained(20 * time.Second)
		w.inOrder(map[string]int{"late": 2})
		n.stop()
	})
}
