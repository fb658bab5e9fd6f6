package relay_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// apart makes a broker whose destinations fail apart from each other, and of
// which those that stuck names never answer.
type apart struct {
	hanging
}

func (apart) Destination(e relay.Event) string { return e.Destination }

func (w *world) apart(stuck func(relay.Event) bool) func(*relay.Config) {
	return func(c *relay.Config) { c.Brokers["default"] = apart{hanging{w.broker.Connect(), stuck}} }
}

func (w *world) flood(topic, destination string, n int, size int) {
	rows := make([]relay.Row, n)
	for i := range rows {
		rows[i] = relay.Row{
			Key: relay.Key{Topic: topic, Key: fmt.Sprintf("%s%d", destination, i)}, Payload: make([]byte, size+1),
			Headers: map[string]string{"to": destination},
		}
	}
	w.db.Insert(rows...)
}

func TestS97_OneHangingDestinationStarvesNobody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topicA, topicB, destination string
		size                        int
	}{
		"two topics":            {"a", "b", "", 100},
		"one topic, by header":  {"orders", "orders", "{header.to}", 100},
		"one topic, big events": {"orders", "orders", "{header.to}", 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{})
				n := 1200
				if c.size > 1000 {
					n = 400
				}
				stop := w.start(w.relay(
					w.apart(func(e relay.Event) bool { return e.Destination == "a" }),
					func(cfg *relay.Config) {
						cfg.Routes[0].Destination = c.destination
						cfg.Databases[0].Batch = 200
						cfg.Memory = 8 << 20
					},
				))
				w.flood(c.topicA, "a", n, c.size)
				w.flood(c.topicB, "b", 50, 10)
				w.until(10*time.Second, "the healthy destination", func() bool { return len(w.broker.Log()) == 50 })
				slow := 0
				for i := range 40 {
					payload := fmt.Sprintf("late %d", i)
					w.db.Insert(relay.Row{Key: relay.Key{Topic: c.topicB, Key: payload}, Payload: []byte(payload), Headers: map[string]string{"to": "b"}})
					if w.until(15*time.Second, payload, func() bool { return w.has(payload) }) > time.Second {
						slow++
					}
					time.Sleep(700 * time.Millisecond)
				}
				if slow > 1 {
					t.Errorf("%d of 40 later events waited for the hanging destination", slow)
				}
				for _, r := range w.db.Pending() {
					if r.Attempts > 0 {
						t.Fatal("an attempt was counted")
					}
				}
				stop()
			})
		})
	}
}

func TestS74_S103_EachDestinationFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var missing atomic.Bool
		missing.Store(true)
		w := newWorld(t, memory.ServerConfig{
			Destination: func(e relay.Event) string { return e.Destination },
			Verdict: func(e relay.Event) error {
				if e.Destination == "missing" && missing.Load() {
					return relay.Unavailable(errors.New("unknown topic"))
				}
				return nil
			},
		})
		stop := w.start(w.relay())
		for i := range 300 {
			w.put("missing", fmt.Sprintf("m%d", i%20), fmt.Sprintf("m%d %d", i%20, i/20))
			w.put("ok", fmt.Sprintf("k%d", i%20), fmt.Sprintf("k%d %d", i%20, i/20))
		}
		w.until(5*time.Second, "the topic that is there", func() bool { return len(w.broker.At("ok")) == 300 })
		time.Sleep(time.Minute)
		if n := len(w.db.Held()) + len(w.db.Dead()); n > 0 {
			t.Errorf("%d rows held or dead", n)
		}
		missing.Store(false)
		w.until(20*time.Second, "the other, once it is there", func() bool { return len(w.broker.At("missing")) == 300 })
		w.firsts(nil, 0)
		stop()
	})
}

func TestS103_StreamsAreIndependent(t *testing.T) {
	t.Parallel()
	states := []string{"empty", "failing", "busy"}
	for i := range 27 {
		combination := []string{states[i%3], states[i/3%3], states[i/9%3]}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{
				Destination: func(e relay.Event) string { return e.Destination },
				Verdict: func(e relay.Event) error {
					if string(e.Payload) == "failing" {
						return relay.Unavailable(errDown)
					}
					return nil
				},
			})
			stop := w.start(w.relay())
			busy := 0
			for s, state := range combination {
				for k := range 20 {
					if state != "empty" {
						w.put(fmt.Sprintf("stream%d", s), fmt.Sprintf("k%d", k), state)
					}
				}
				if state == "busy" {
					busy += 20
				}
			}
			w.until(2*time.Second, fmt.Sprintf("the busy ones of %v", combination), func() bool { return len(w.broker.Log()) == busy })
			stop()
		})
	}
}

func TestS103_DatabasesAreIndependent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		broken := memory.New(memory.Config{Name: "broken", Hook: func(context.Context, string, bool) error { return errDown }})
		stop := w.start(w.relay(func(c *relay.Config) {
			c.Databases = append([]relay.Database{{Name: "broken", Store: broken}}, c.Databases...)
		}))
		w.write("orders", keys(10), 3)
		time.Sleep(10 * time.Second)
		w.check(keys(10), 3)
		stop()
	})
}

func TestAKeyWhoseEventsGoToSeveralDestinationsKeepsItsOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		w := newWorld(t, memory.ServerConfig{
			PerCall:     time.Millisecond,
			Destination: func(e relay.Event) string { return e.Destination },
			Verdict: func(e relay.Event) error {
				if down.Load() && e.Destination == "odd" {
					return relay.Unavailable(errDown)
				}
				return nil
			},
		})
		stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].Destination = "{header.to}" }))
		write := func(from, to int) {
			for i := from; i < to; i++ {
				for _, k := range keys(10) {
					w.db.Insert(relay.Row{
						Key: relay.Key{Topic: "orders", Key: k}, Payload: fmt.Appendf(nil, "%s %d", k, i),
						Headers: map[string]string{"to": []string{"even", "odd"}[i%2]},
					})
				}
			}
		}
		write(0, 20)
		time.Sleep(5 * time.Second)
		w.check(keys(10), 20)
		down.Store(true)
		write(20, 40)
		time.Sleep(5 * time.Second)
		down.Store(false)
		time.Sleep(30 * time.Second)
		w.check(keys(10), 40)
		w.empty()
		stop()
	})
}
