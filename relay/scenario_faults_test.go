package relay_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

// storeMethods are those a running relay calls.
var storeMethods = []string{
	"Open", "Fetch", "ReadKeys", "HeldKeys", "Settle", "Promote", "Keep",
	"Listen", "Arm", "Join", "Renew", "Evict", "Claim", "Release", "Leave",
}

// sqlStates are the errors of a database that may hit any statement once.
var sqlStates = []string{
	"08000", "08001", "08003", "08006", "25006", "25P03", "40001", "40P01", "42P05", "53000",
	"53100", "53200", "53300", "55P03", "57014", "57P01", "57P02", "57P03", "58000", "XX000",
}

func TestS44_NoErrorOfTheDatabaseStopsARelay(t *testing.T) {
	t.Parallel()
	for _, method := range storeMethods {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for i, state := range sqlStates {
				for _, lost := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, memory.ServerConfig{Verdict: refuseTimes("k001 1", 1)})
						err := fmt.Errorf("SQLSTATE %s", state)
						f := fault.Fault{Err: err}
						if lost {
							f = fault.Fault{Lost: err}
						}
						other := w.node(nil) // something to evict and to share with
						time.Sleep(time.Second)
						n := w.node(fault.Script{{Method: method, Call: 1 + i%3, Fault: f}}.Plan())
						w.write("orders", keys(4), 2)
						w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k003"}, Payload: []byte("k003 2"), Available: time.Now().Add(3 * time.Second)})
						time.Sleep(time.Second)
						other.kill()
						for r := 2; r < 4; r++ {
							for _, k := range keys(3) {
								w.put("orders", k, fmt.Sprintf("%s %d", k, r))
							}
						}
						w.drained(time.Minute)
						w.inOrder(map[string]int{"k000": 4, "k001": 4, "k002": 4, "k003": 3})
						w.empty()
						n.stop()
					})
				}
			}
		})
	}
}

func TestS44_AMethodThatKeepsFailingIsNotCalledInASpin(t *testing.T) {
	t.Parallel()
	for _, method := range storeMethods {
		for name, f := range map[string]fault.Fault{"fails": {Err: errDown}, "hangs": {Hang: true}} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, memory.ServerConfig{Verdict: refuseTimes("k001 0", 2)})
					n := w.node(fault.Script{{Method: method, Fault: f}}.Plan())
					w.write("orders", keys(4), 2)
					w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "later"}, Payload: []byte("later 0"), Available: time.Now().Add(3 * time.Second)})
					time.Sleep(time.Minute)
					if calls := n.in.Calls(method); calls > 600 {
						t.Errorf("%d calls in a minute", calls)
					}
					for _, r := range w.db.Pending() {
						if r.Attempts > 2 {
							t.Errorf("%d attempts of %q", r.Attempts, r.Payload)
						}
					}
					n.in.Use(nil)
					n.in.Release()
					w.drained(3 * time.Minute)
					w.inOrder(map[string]int{"k000": 2, "k001": 2, "later": 1})
					n.stop()
				})
			})
		}
	}
}

func TestS41_AnotherServerMeansAnotherHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 20 * time.Millisecond})
		n := w.node(nil)
		w.write("orders", keys(10), 2)
		time.Sleep(5 * time.Second)
		backup := w.db.Backup()
		// Commits that the promoted standby never got: their ids come back.
		w.write("lost", keys(10), 5)
		time.Sleep(30 * time.Millisecond)
		w.db.Restore(backup, "memory/promoted")
		for i := 2; i < 6; i++ {
			for _, k := range keys(10) {
				w.put("orders", k, fmt.Sprintf("%s %d", k, i))
			}
		}
		w.until(30*time.Second, "all that the standby has", func() bool { return len(w.db.Pending()) == 0 })
		got := map[string]int{}
		for _, a := range w.broker.Log() {
			if a.Topic == "orders" {
				got[a.Key]++
			}
		}
		for _, k := range keys(10) {
			if got[k] < 6 {
				t.Errorf("key %q: %d accepted, want 6", k, got[k])
			}
		}
		if n := len(w.db.Delivered()); n != 60 {
			t.Errorf("%d rows in the history, want 60", n)
		}
		n.stop()
	})
}

func TestS41_AnotherServerDuringASlowStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 100 * time.Millisecond})
		n := w.node(nil)
		w.write("orders", keys(5), 3)
		time.Sleep(30 * time.Millisecond)
		n.kill()
		changed := false
		n = w.node(func(c fault.Call) fault.Fault {
			if c.Method == "Settle" && !changed { // the note of the first event sent alone
				changed = true
				w.db.MutateServer("memory/promoted")
				return fault.Fault{Err: errDown}
			}
			return fault.Fault{}
		})
		w.drained(2 * time.Minute)
		w.firsts(keys(5), 3)
		time.Sleep(2 * time.Minute) // no call is taken for overdue
		w.put("orders", "k000", "k000 3")
		w.until(2*time.Second, "a later event", func() bool { return w.has("k000 3") })
		n.stop()
	})
}

func TestS41_AReadOnlyNodeCountsNoAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(nil)
		time.Sleep(3 * time.Second)
		readOnly := relay.Hint(errors.New("cannot execute in a read-only transaction (SQLSTATE 25006)"), "")
		var script fault.Script
		for _, m := range []string{"Settle", "Renew", "Claim", "Promote", "Keep", "Listen", "Arm"} {
			script = append(script, fault.Step{Method: m, Fault: fault.Fault{Err: readOnly}})
		}
		n.in.Use(script.Plan())
		w.write("orders", keys(20), 3)
		time.Sleep(2 * time.Minute)
		for _, r := range w.db.Pending() {
			if r.Attempts > 0 {
				t.Errorf("%d attempts", r.Attempts)
			}
		}
		n.in.Use(nil)
		w.drained(30 * time.Second)
		if duplicates := w.firsts(keys(20), 3); duplicates > 0 {
			t.Errorf("%d duplicates", duplicates)
		}
		n.stop()
	})
}

func TestS39_ALostLeaseRowEndsTheLeaderAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		one := func(c *relay.Config) { c.Active = 1 }
		a := w.node(nil, one)
		time.Sleep(3 * time.Second)
		b := w.node(nil, one)
		time.Sleep(5 * time.Second)
		for i := range 20 {
			for _, k := range keys(10) {
				w.put("orders", k, fmt.Sprintf("%s %d", k, i))
			}
			if i%5 == 4 { // the connection of each is cut in turn, replies lost
				target := []*node{a, b}[i/5%2]
				target.in.Use(func(c fault.Call) fault.Fault { return fault.Fault{Lost: errDown} })
				time.Sleep(300 * time.Millisecond)
				target.in.Use(nil)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second)
		w.firsts(keys(10), 20)
		w.empty()
		leaders := 0
		for _, m := range w.db.Members() {
			if m.Lanes.Len() > 0 {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("%d leaders", leaders)
		}
		a.stop()
		b.stop()
	})
}

func TestS16_AStaleOwnerWritesNoDeadLetterAndNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		short := func(c *relay.Config) {
			c.Lease, c.PublishTimeout = 2*time.Second, 500*time.Millisecond
			c.Routes[0].OnFailure = relay.OnFailureDeadLetter
		}
		// The stale owner's reply is a refusal for good, and comes when another
		// relay owns the lane and has counted its own attempt.
		a := w.node(func(c fault.Call) fault.Fault {
			if c.Method == "Publish" {
				return fault.Fault{After: 8 * time.Second, Lost: relay.Permanent(errRefused)}
			}
			if c.Method == "Renew" && c.Number > 3 {
				return fault.Fault{Err: errDown}
			}
			return fault.Fault{}
		}, short)
		time.Sleep(time.Second)
		w.broker.Configure(func(c *memory.ServerConfig) {
			c.Verdict = func(relay.Event) error { return relay.Rejected(errRefused) }
		})
		w.put("orders", "k", "k 0")
		time.Sleep(200 * time.Millisecond)
		b := w.node(nil, short)
		w.until(7*time.Second, "the new owner's attempt", func() bool {
			held := w.db.Held()
			return len(held) == 1 && held[0].Attempts == 1
		})
		w.until(10*time.Second, "its third", func() bool { return w.db.Held()[0].Attempts == 3 })
		time.Sleep(3 * time.Second)
		if n := len(w.db.Dead()); n > 0 {
			t.Error("the stale owner wrote a dead letter")
		}
		w.broker.Configure(func(c *memory.ServerConfig) { c.Verdict = nil })
		a.kill()
		w.drained(time.Minute)
		b.stop()
	})
}

func TestS27_ASaturatedCounterStopsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if string(e.Payload) == "k050 0" && refused < 2 {
				refused++
				return relay.Rejected(errRefused)
			}
			return nil
		}})
		w.write("orders", keys(100), 1)
		for _, r := range w.db.Pending() {
			if string(r.Payload) == "k050 0" {
				_, err := w.db.Settle(t.Context(), relay.Settlement{Marks: []relay.Mark{{Ref: r.Ref, Attempts: 1<<31 - 1}}})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		stop := w.start(w.relay())
		w.until(2*time.Second, "the other 99", func() bool { return len(w.broker.Log()) == 99 })
		if held := w.db.Held(); len(held) != 1 || held[0].Attempts != 1<<31-1 {
			t.Errorf("held %+v", held)
		}
		w.drained(3 * time.Minute)
		stop()
	})
}
