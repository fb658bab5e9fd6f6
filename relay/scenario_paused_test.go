package relay_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func TestPaused_AnEventWrittenAfterThePauseIsNotSent(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"topic", "destination"} {
		for name, template := range map[string]string{"static": "", "by key": "q-{key}"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, memory.ServerConfig{Destination: func(e relay.Event) string { return e.Destination }})
					stop := w.start(w.relay(func(c *relay.Config) { c.Routes[0].Destination = template }))
					time.Sleep(5 * time.Second)
					target := map[string]map[string]string{
						"topic":       {"static": "orders", "by key": "orders"},
						"destination": {"static": "orders", "by key": "q-a"},
					}[kind][name]
					w.db.Pause(relay.Control{Kind: kind, Name: target, By: "op"})
					w.put("orders", "a", "a 0")
					w.put("orders", "a", "a 1")
					w.put("orders", "", " 0")
					time.Sleep(10 * time.Second)
					if w.has("a 0") {
						t.Error("an event of what is paused was sent")
					}
					if n := len(w.db.Held()); kind == "topic" && n > 0 {
						t.Errorf("%d rows were written to", n)
					}
					w.put("other", "b", "b 0")
					w.until(2*time.Second, "another topic", func() bool { return w.has("b 0") })
					w.db.Resume(kind, target)
					w.until(5*time.Second, "the rest", func() bool { return len(w.broker.Log()) == 4 })
					w.inOrder(map[string]int{"a": 2, "b": 1})
					stop()
				})
			})
		}
	}
}

func TestPaused_WhatWaitsInMemoryIsNotSentAnyMore(t *testing.T) {
	t.Parallel()
	for name, template := range map[string]string{"static": "", "by key": "q-{key}"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memory.ServerConfig{PerEvent: 10 * time.Millisecond, Destination: func(e relay.Event) string { return e.Destination }})
				stop := w.start(w.relay(func(c *relay.Config) {
					c.Routes[0].Destination = template
					c.Databases[0].Batch = 1000
					c.PublishTimeout = time.Second
				}))
				w.write("orders", []string{"hot"}, 1000)
				time.Sleep(2 * time.Second)
				w.db.Pause(relay.Control{Kind: "topic", Name: "orders", By: "op"})
				time.Sleep(2 * time.Second) // the relay learns of it with its next look
				before := len(w.broker.Log())
				if before == 0 || before == 1000 {
					t.Fatalf("%d sent before the pause", before)
				}
				time.Sleep(20 * time.Second)
				if n := len(w.broker.Log()); n != before {
					t.Errorf("%d sent after the pause", n-before)
				}
				w.db.Resume("topic", "orders")
				time.Sleep(30 * time.Second)
				w.inOrder(map[string]int{"hot": 1000})
				w.empty()
				stop()
			})
		})
	}
}
