package brokertest

import (
	"testing"

	"github.com/postrider/postrider/relay"
)

var closeCases = []testCase{
	{"Close is safe to call twice", closeTwice},
	{"Close before any Publish", closeFirst},
	{"Publish after Close returns an Unavailable error for each event", publishAfterClose},
	{"Close waits for nothing", closeInCall},
}

func closeTwice(t *testing.T, h Harness) {
	d := h.open(t)
	wantAll(t, publish(t, d, patience, d.events(2, 2)))
	for range 2 {
		if err := d.Broker.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func closeFirst(t *testing.T, h Harness) {
	d := h.open(t)
	if err := d.Broker.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func publishAfterClose(t *testing.T, h Harness) {
	d := h.open(t)
	wantAll(t, publish(t, d, patience, d.events(2, 2)))
	_ = d.Broker.Close(t.Context())
	ctx, cancel := within(t, patience)
	defer cancel()
	events := append(d.events(2, 2), d.free(2)...)
	errs := d.Broker.Publish(ctx, events)
	if len(errs) != len(events) {
		t.Fatalf("%d results for %d events", len(errs), len(events))
	}
	for i, err := range errs {
		if !relay.IsUnavailable(err) {
			t.Errorf("event %d: %v, want it unavailable", i, err)
		}
	}
}

// closeInCall closes while a server that does not answer holds a call.
func closeInCall(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.Pause != nil })
	wantAll(t, publish(t, &f.Target, patience, []relay.Event{f.event("warm", 0)}))
	f.Pause()
	events := f.events(3, 3)
	got := make(chan []error, 1)
	go func() {
		ctx, cancel := within(t, patience)
		defer cancel()
		got <- f.Broker.Publish(ctx, events)
	}()
	if err := f.Broker.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	for i, err := range <-got {
		if err == nil {
			t.Errorf("event %d: accepted by a silent server", i)
		}
	}
	f.Resume()
}
