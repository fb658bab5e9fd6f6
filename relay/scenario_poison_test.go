package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func isPoison(e relay.Event) bool { return len(e.Payload) > 0 && e.Payload[0] == '!' }

func (w *world) hanging(poison func(relay.Event) bool) func(*relay.Config) {
	return func(c *relay.Config) { c.Brokers["default"] = hanging{w.broker.Connect(), poison} }
}

func TestS80_S90_APoisonThatTimesOutHoldsItsKeyOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stop := w.start(w.relay(w.hanging(isPoison)))
		w.put("orders", "bad", "!poison")
		w.write("orders", keys(20), 5)
		w.until(20*time.Second, "the healthy keys", func() bool { return len(w.broker.Log()) == 100 })
		// From now on the poison costs nobody anything.
		for i := range 50 {
			payload := fmt.Sprintf("late %d", i)
			w.put("orders", "late", payload)
			w.until(time.Second, payload, func() bool { return w.has(payload) })
			time.Sleep(time.Second)
		}
		if held := w.db.Held(); len(held) != 1 || held[0].Attempts != 0 {
			t.Errorf("held %+v, want the poison, uncounted", held)
		}
		stop()
	})
}

func TestS80_AKeylessPoisonHoldsOnlyItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stop := w.start(w.relay(w.hanging(isPoison)))
		w.put("orders", "", "!poison")
		for i := range 100 {
			w.put("orders", "", fmt.Sprintf("good %d", i))
		}
		w.until(20*time.Second, "the healthy events", func() bool { return len(w.broker.Log()) == 100 })
		for i := range 30 {
			payload := fmt.Sprintf("late %d", i)
			w.put("orders", "", payload)
			w.until(time.Second, payload, func() bool { return w.has(payload) })
			time.Sleep(time.Second)
		}
		stop()
	})
}

func TestS80_ManyPoisonsLeaveRoomForTheHealthy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stop := w.start(w.relay(w.hanging(isPoison)))
		for i := range 30 {
			w.put("orders", fmt.Sprintf("bad%d", i), "!poison")
		}
		w.write("orders", keys(20), 5)
		w.until(3*time.Minute, "the healthy keys", func() bool { return len(w.broker.Log()) == 100 })
		for i := range 30 {
			payload := fmt.Sprintf("late %d", i)
			w.put("orders", "late", payload)
			w.until(2*time.Second, payload, func() bool { return w.has(payload) })
			time.Sleep(time.Second)
		}
		stop()
	})
}

func TestS90_APoisonInAQuietDestination(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		stop := w.start(w.relay(w.hanging(isPoison)))
		w.put("orders", "bad", "!poison")
		time.Sleep(5 * time.Minute) // nobody else: it cannot be told whose fault it is
		w.put("orders", "good", "good 0")
		w.until(25*time.Second, "the first healthy event", func() bool { return w.has("good 0") })
		for i := range 20 {
			time.Sleep(7 * time.Second)
			payload := fmt.Sprintf("late %d", i)
			w.put("orders", "late", payload)
			w.until(time.Second, payload, func() bool { return w.has(payload) })
		}
		for _, r := range w.db.Pending() {
			if r.Attempts != 0 {
				t.Errorf("%d attempts counted for what nobody answered", r.Attempts)
			}
		}
		stop()
	})
}
