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

// refuseTimes refuses the first attempts of one payload.
func refuseTimes(payload string, times int64) func(relay.Event) error {
	var n atomic.Int64
	return func(e relay.Event) error {
		if string(e.Payload) == payload && n.Add(1) <= times {
			return relay.Rejected(errRefused)
		}
		return nil
	}
}

func TestS01_S11_ARowThatCommitsLateBetweenHeldOnesIsSent(t *testing.T) {
	t.Parallel()
	// The commit falls into every moment of the key's retry.
	for after := 900 * time.Millisecond; after < 1300*time.Millisecond; after += 10 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{PerCall: 50 * time.Millisecond, Verdict: refuseTimes("first", 1)})
			stop := w.start(w.relay())
			time.Sleep(time.Second)
			w.put("orders", "k", "first")
			late := w.db.Begin()
			late.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: "k"}, Payload: []byte("late")})
			w.put("orders", "k", "last")
			time.Sleep(after)
			if err := late.Commit(); err != nil {
				t.Fatal(err)
			}
			w.until(5*time.Second, fmt.Sprintf("three events, the late one committed after %v", after), func() bool { return len(w.broker.Log()) == 3 })
			if got := w.accepted(); got[0] != "first" {
				t.Errorf("accepted %q", got)
			}
			stop()
		})
	}
}

func TestClosedKeysStayClosedAfterARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{Verdict: refuseTimes("k000 0", 5)})
		a := w.node(nil)
		w.write("orders", keys(2), 3)
		time.Sleep(10 * time.Second)
		a.kill()
		b := w.node(nil)
		for i := 3; i < 6; i++ {
			for _, k := range keys(2) {
				w.put("orders", k, fmt.Sprintf("%s %d", k, i))
			}
		}
		time.Sleep(12 * time.Second)
		for _, a := range w.broker.Log() {
			if a.Key == "k000" {
				t.Errorf("%q passed its head after a restart", a.Payload)
			}
		}
		time.Sleep(2 * time.Minute)
		w.firsts(keys(2), 6)
		w.empty()
		b.stop()
	})
}

func TestClosedKeysStayClosedWhenTheirLanesMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		w := newWorld(t, memory.ServerConfig{Verdict: func(e relay.Event) error {
			if refuse.Load() && string(e.Payload) == e.Key+" 0" {
				return relay.Rejected(errRefused)
			}
			return nil
		}})
		a := w.node(nil)
		w.write("orders", keys(40), 3)
		time.Sleep(5 * time.Second)
		b := w.node(nil)
		time.Sleep(10 * time.Second)
		for _, k := range keys(40) {
			w.put("orders", k, k+" 3")
		}
		a.stop()
		time.Sleep(10 * time.Second)
		if n := len(w.broker.Log()); n > 0 {
			t.Errorf("%d events passed their heads", n)
		}
		refuse.Store(false)
		time.Sleep(2 * time.Minute)
		w.check(keys(40), 4)
		w.empty()
		b.stop()
	})
}

func TestMoreThanABatchOfOneKeyStarvesNobody(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]fault.Plan{
		"no fault": nil,
		// An outage while the key is closed only in the store: its head is not
		// held, what is behind it is.
		"outage": fault.Script{{Method: "Publish", Call: 4, Fault: fault.Fault{Err: errDown}}, {Method: "Publish", Call: 5, Fault: fault.Fault{Err: errDown}}}.Plan(),
		"late":   func(c fault.Call) fault.Fault { return fault.Fault{Err: failEvery(c, "Publish", 5)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{PerEvent: time.Millisecond})
				w.write("orders", []string{"hot"}, 700)
				n := w.node(plan, func(c *relay.Config) { c.Databases[0].Batch = 100 })
				time.Sleep(100 * time.Millisecond)
				w.write("orders", keys(5), 2)
				w.until(3*time.Second, "the other keys", func() bool { return w.has("k004 1") })
				time.Sleep(2 * time.Minute)
				w.inOrder(map[string]int{"hot": 700, "k000": 2, "k004": 2})
				w.empty()
				n.stop()
			})
		})
	}
}

func failEvery(c fault.Call, method string, n int) error {
	if c.Method == method && c.Number%n == 0 {
		return errDown
	}
	return nil
}

// 100,000 blocked keys take PostgreSQL a second to page through. Every two
// seconds, from every relay, that would be what the server is busy with.
func TestS18_PagingThroughManyHeldKeysLeavesTheServerAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(func(c fault.Call) fault.Fault {
			if c.Method == "HeldKeys" {
				return fault.Fault{After: time.Second}
			}
			return fault.Fault{}
		})
		time.Sleep(5 * time.Minute)
		if calls := n.in.Calls("HeldKeys"); calls > 20 {
			t.Errorf("%d seconds of five minutes", calls)
		}
		n.stop()
		time.Sleep(time.Second) // the page that a stop does not wait for
	})
}
