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

// lateReply delays the reply of the next call of a method, after its effect.
func lateReply(method string, armed *atomic.Bool, by time.Duration) fault.Plan {
	return func(c fault.Call) fault.Fault {
		if c.Method == method && armed.CompareAndSwap(true, false) {
			return fault.Fault{After: by}
		}
		return fault.Fault{}
	}
}

func TestS12_AFetchThatOutlivesItsLanesSendsNothingTwice(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"lanes moved": false, "lanes moved and came back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				var late atomic.Bool
				a := w.node(lateReply("Fetch", &late, 20*time.Second))
				time.Sleep(5 * time.Second)
				b := w.node(nil)
				late.Store(true)
				w.write("orders", keys(60), 3)
				time.Sleep(10 * time.Second)
				if leaves {
					b.stop()
				}
				time.Sleep(30 * time.Second)
				w.check(keys(60), 3)
				w.empty()
				if !leaves {
					b.stop()
				}
				a.stop()
			})
		})
	}
}

func TestS12_AKeyReadThatOutlivesItsLanesSendsNothingTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		w := newWorld(t, memory.ServerConfig{Verdict: func(relay.Event) error {
			if refuse.Load() {
				return relay.Rejected(errRefused)
			}
			return nil
		}})
		var late atomic.Bool
		a := w.node(lateReply("ReadKeys", &late, 25*time.Second))
		w.write("orders", keys(60), 3)
		time.Sleep(500 * time.Millisecond)
		refuse.Store(false)
		late.Store(true)
		b := w.node(nil)
		time.Sleep(15 * time.Second)
		b.stop()
		time.Sleep(30 * time.Second)
		w.check(keys(60), 3)
		w.empty()
		a.stop()
	})
}

func TestS12_FourRelaysOneKilledEveryFewSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 20 * time.Millisecond, PerEvent: time.Millisecond})
		short := func(c *relay.Config) { c.Lease, c.PublishTimeout = 2*time.Second, 500*time.Millisecond }
		nodes := make([]*node, 4)
		for i := range nodes {
			nodes[i] = w.node(nil, short)
		}
		const rounds = 40
		for i := range rounds {
			for _, k := range keys(50) {
				w.put("orders", k, fmt.Sprintf("%s %d", k, i))
			}
			time.Sleep(300 * time.Millisecond)
			if i%7 == 6 {
				nodes[i%4].kill()
				nodes[i%4] = w.node(nil, short)
			}
		}
		time.Sleep(30 * time.Second)
		w.firsts(keys(50), rounds)
		w.empty()
		for _, n := range nodes {
			n.stop()
		}
	})
}

func TestLanesMoveOneByOneWithoutADuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		var written atomic.Int64
		var done atomic.Bool
		go func() {
			for i := 0; !done.Load(); i++ {
				for _, k := range keys(20) {
					w.put("orders", k, fmt.Sprintf("%s %d", k, i))
				}
				written.Store(int64(i + 1))
				time.Sleep(200 * time.Millisecond)
			}
		}()
		a := w.node(nil)
		time.Sleep(5 * time.Second)
		b := w.node(nil)
		time.Sleep(8 * time.Second)
		c := w.node(nil)
		time.Sleep(8 * time.Second)
		owned := 0
		for _, m := range w.db.Members() {
			owned += m.Lanes.Len()
			if n := m.Lanes.Len(); n < 85 || n > 86 {
				t.Errorf("%d lanes of one of three relays", n)
			}
		}
		if owned != 256 {
			t.Errorf("%d lanes owned", owned)
		}
		b.stop()
		time.Sleep(8 * time.Second)
		a.stop()
		time.Sleep(8 * time.Second)
		done.Store(true)
		time.Sleep(5 * time.Second)
		w.check(keys(20), int(written.Load()))
		w.empty()
		c.stop()
	})
}

func TestActiveOne_ALeaderAndItsStandbys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		one := func(c *relay.Config) { c.Active = 1 }
		a := w.node(nil, one)
		time.Sleep(5 * time.Second)
		b, c := w.node(nil, one), w.node(nil, one)
		time.Sleep(15 * time.Second)
		w.write("orders", keys(30), 2)
		time.Sleep(5 * time.Second)
		if n := a.in.Calls("Publish"); n == 0 || b.in.Calls("Publish")+c.in.Calls("Publish") != 0 {
			t.Errorf("the leader made %d calls, its standbys %d", n, b.in.Calls("Publish")+c.in.Calls("Publish"))
		}
		a.stop()
		time.Sleep(6 * time.Second)
		leaders := 0
		for _, m := range w.db.Members() {
			if m.Lanes.Len() > 0 {
				leaders++
			}
		}
		if leaders != 1 {
			t.Errorf("%d leaders", leaders)
		}
		w.write("again", keys(30), 2)
		time.Sleep(2 * time.Second)
		if n := len(w.broker.Log()); n != 120 {
			t.Errorf("%d accepted, want 120", n)
		}
		b.stop()
		c.stop()
	})
}

func TestS40_APausedRelaySendsAtMostWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 10 * time.Millisecond})
		short := func(c *relay.Config) { c.Lease, c.PublishTimeout = 2*time.Second, 500*time.Millisecond }
		a := w.node(nil, short)
		time.Sleep(3 * time.Second)
		w.write("orders", keys(30), 20)
		time.Sleep(15 * time.Millisecond)
		a.in.Pause()
		onItsWay := a.in.Calls("Publish")
		b := w.node(nil, short)
		time.Sleep(15 * time.Second)
		if n := len(w.db.Pending()); n > 0 {
			t.Errorf("%d rows left after the takeover", n)
		}
		a.in.Resume()
		time.Sleep(2 * time.Second)
		if n := a.in.Calls("Publish"); n > onItsWay+2 {
			t.Errorf("%d calls of the paused relay after its pause", n-onItsWay)
		}
		time.Sleep(10 * time.Second)
		w.firsts(keys(30), 20)
		w.empty()
		a.stop()
		b.stop()
	})
}

func TestS15_TheLeaseIsRenewedWhileASlowBatchIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerEvent: 100 * time.Millisecond})
		short := func(c *relay.Config) { c.Lease, c.PublishTimeout = 2*time.Second, 500*time.Millisecond }
		a, b := w.node(nil, short), w.node(nil, short)
		time.Sleep(5 * time.Second)
		w.write("orders", keys(50), 2)
		time.Sleep(30 * time.Second)
		w.check(keys(50), 2) // no duplicate
		w.empty()

		// The database hangs for both: they stop sending within the lease.
		w.write("blocked", keys(100), 2)
		time.Sleep(300 * time.Millisecond)
		a.in.Use(fault.Script{{Method: "Renew", Fault: fault.Fault{Err: errDown}}, {Method: "Fetch", Fault: fault.Fault{Err: errDown}}, {Method: "Settle", Fault: fault.Fault{Err: errDown}}}.Plan())
		b.in.Use(fault.Script{{Method: "Renew", Fault: fault.Fault{Err: errDown}}, {Method: "Fetch", Fault: fault.Fault{Err: errDown}}, {Method: "Settle", Fault: fault.Fault{Err: errDown}}}.Plan())
		time.Sleep(2 * time.Second)
		calls := a.in.Calls("Publish") + b.in.Calls("Publish")
		time.Sleep(10 * time.Second)
		if more := a.in.Calls("Publish") + b.in.Calls("Publish") - calls; more > 0 {
			t.Errorf("%d calls after the lease had run out", more)
		}
		a.in.Use(nil)
		b.in.Use(nil)
		time.Sleep(60 * time.Second)
		w.empty()
		a.stop()
		b.stop()
	})
}

// A relay that could not look has not seen a beat stand still.
func TestALongOutageOfTheDatabaseKillsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		a := w.node(nil)
		time.Sleep(230 * time.Millisecond) // not in step, or each would see the other's beat rise
		b := w.node(nil)
		time.Sleep(30 * time.Second)
		outage := func(fault.Call) fault.Fault { return fault.Fault{Err: errDown} }
		for range 5 {
			a.in.Use(outage)
			b.in.Use(outage)
			time.Sleep(time.Minute + 130*time.Millisecond)
			a.in.Use(nil)
			b.in.Use(nil)
			time.Sleep(30 * time.Second)
		}
		for _, n := range []*node{a, b} {
			if c := n.status().Counts; c.LeaseLosses > 0 {
				t.Errorf("%d leases lost to a relay that was away itself", c.LeaseLosses)
			}
		}
		b.kill()
		w.until(25*time.Second, "the lanes of the killed relay", func() bool { return a.status().Lanes == 256 })
		a.stop()
	})
}
