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

// cutOff makes every Publish of a node fail as an unreachable broker's does,
// while the switch is on.
func cutOff(on *atomic.Bool) fault.Plan {
	return func(c fault.Call) fault.Fault {
		if c.Method == "Publish" && on.Load() {
			return fault.Fault{Err: relay.Unavailable(errDown)}
		}
		return fault.Fault{}
	}
}

// steady writes rounds of events until it is stopped, and says how many.
func (w *world) steady(keys []string, every time.Duration) (stop func() int) {
	var done atomic.Bool
	var group sync.WaitGroup
	rounds := 0
	group.Go(func() {
		for ; !done.Load(); rounds++ {
			for _, k := range keys {
				w.put("orders", k, fmt.Sprintf("%s %d", k, rounds))
			}
			time.Sleep(every)
		}
	})
	w.t.Cleanup(func() { done.Store(true); group.Wait() })
	return func() int { done.Store(true); group.Wait(); return rounds }
}

func (n *node) lanes() int { return n.status().Lanes }

func TestARelayThatCannotReachABrokerGivesItsLanesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		var down atomic.Bool
		a := w.node(cutOff(&down))
		b := w.node(nil)
		written := w.steady(keys(40), 5*time.Second)
		w.until(time.Minute, "half of the lanes each", func() bool { return a.lanes() == 128 && b.lanes() == 128 })

		down.Store(true)
		before := a.lanes()
		for range 13 { // the lanes go one by one at first
			time.Sleep(2 * time.Second)
			now := a.lanes()
			if before-now > 2 {
				t.Fatalf("%d lanes went at once", before-now)
			}
			before = now
		}
		if before == 128 {
			t.Error("no lane was given up")
		}
		w.until(2*time.Minute, "all lanes of the broken relay", func() bool { return a.lanes() == 0 && b.lanes() == 256 })
		w.until(time.Minute, "its events", func() bool { return len(w.db.Pending()) <= 80 })

		// It scouts now and then, with one lane, and never has more of them.
		tries := a.in.Calls("Publish")
		for range 300 {
			time.Sleep(time.Second)
			if n := a.lanes(); n > 1 {
				t.Fatalf("%d lanes of a relay whose broker is down", n)
			}
		}
		if n := a.in.Calls("Publish") - tries; n == 0 || n > 20 {
			t.Errorf("%d tries in 5 minutes", n)
		}
		down.Store(false)
		w.until(15*time.Minute, "its share of the lanes", func() bool { return a.lanes() == 128 && b.lanes() == 128 })
		n := written()
		w.drained(time.Minute)
		w.check(keys(40), n) // in order and without a duplicate
		w.empty()
		a.stop()
		b.stop()
	})
}

func TestABrokerThatIsDownForAllMovesNoLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		var down atomic.Bool
		nodes := []*node{w.node(cutOff(&down)), w.node(cutOff(&down)), w.node(cutOff(&down))}
		written := w.steady(keys(40), 5*time.Second)
		w.until(time.Minute, "a third of the lanes each", func() bool {
			return nodes[0].lanes() == 86 && nodes[1].lanes() == 85 && nodes[2].lanes() == 85 ||
				nodes[0].lanes()+nodes[1].lanes()+nodes[2].lanes() == 256 && max(nodes[0].lanes(), nodes[1].lanes(), nodes[2].lanes()) == 86
		})
		moved := func() (n int64) {
			for _, x := range nodes {
				n += x.status().Counts.LanesMoved
			}
			return n
		}
		before := moved()
		down.Store(true)
		time.Sleep(6 * time.Minute)
		if n := moved() - before; n > 30 {
			t.Errorf("%d lanes moved while the broker was down for all", n)
		}
		down.Store(false)
		n := written()
		w.drained(2 * time.Minute)
		w.check(keys(40), n)
		w.empty()
		for _, x := range nodes {
			x.stop()
		}
	})
}

// A relay without a single lane of the destination's events does not name it
// until it has failed with one.
func TestAPeerThatNeverTriedIsFoundOutCheaply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		var down atomic.Bool
		a, b := w.node(cutOff(&down)), w.node(cutOff(&down))
		w.until(time.Minute, "half of the lanes each", func() bool { return a.lanes() == 128 && b.lanes() == 128 })
		// Events in the lanes of one relay only.
		var mine []string
		var owned relay.Lanes
		for _, m := range w.db.Members() {
			if m.Instance == a.status().Instance {
				owned = m.Lanes
			}
		}
		for _, k := range keys(400) {
			if owned.Has(relay.LaneOf(k, [16]byte{})) {
				mine = append(mine, k)
			}
		}
		down.Store(true)
		w.write("orders", mine, 2)
		before := a.status().Counts.LanesMoved + b.status().Counts.LanesMoved
		time.Sleep(6 * time.Minute)
		if n := a.status().Counts.LanesMoved + b.status().Counts.LanesMoved - before; n > 100 {
			t.Errorf("%d lanes moved in 6 minutes", n)
		}
		down.Store(false)
		w.drained(2 * time.Minute)
		w.check(mine, 2)
		a.stop()
		b.stop()
	})
}

// oneLane is a store whose keys share one lane, as SQLite's do.
type oneLane struct{ *memory.Store }

func (s oneLane) Open(ctx context.Context) (relay.Server, error) {
	server, err := s.Store.Open(ctx)
	server.Lanes = false
	return server, err
}

func TestTheOneLaneGoesToTheRelayThatReachesTheBroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{PerCall: 5 * time.Millisecond})
		var downA, downB atomic.Bool
		one := func(c *relay.Config) { c.Databases[0].Store = oneLane{w.db.Connect()} }
		a := w.node(cutOff(&downA), one)
		w.until(time.Minute, "a owns the lane", func() bool { return a.lanes() == 256 })
		b := w.node(cutOff(&downB), one)
		moved := func() int64 { return (a.status().Counts.LanesMoved + b.status().Counts.LanesMoved) / 256 }

		downA.Store(true)
		w.write("first", keys(10), 2)
		w.until(time.Minute, "the lane at the other relay", func() bool { return b.lanes() == 256 })
		w.drained(10 * time.Second)
		before := moved()
		time.Sleep(10 * time.Minute)
		if n := moved() - before; n != 0 {
			t.Errorf("the lane moved %d times although its owner works", n)
		}

		// Down for both: it goes to and fro, ever more seldom.
		downB.Store(true)
		w.write("second", keys(10), 2)
		time.Sleep(30 * time.Minute)
		if n := moved() - before; n > 10 {
			t.Errorf("the lane moved %d times in half an hour", n)
		}
		downA.Store(false)
		w.drained(40 * time.Minute)
		if n := len(w.broker.Log()); n != 40 {
			t.Errorf("%d accepted, want 40", n)
		}
		a.stop()
		b.stop()
	})
}
