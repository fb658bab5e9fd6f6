package brokertest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/postrider/postrider/relay"
)

var acceptCases = []testCase{
	{"nil means accepted by the broker itself", acceptedIsThere},
	{"a call without events has no results", noEvents},
	{"the result has one error per event in their order", alignedResults},
	{"one event refused in the middle leaves its neighbours alone", refusedInTheMiddle},
	{"safe for concurrent use", concurrentCalls},
	{"a known dedup id is accepted and not kept again", dedup},
	{"a replay is kept although its event was", replay},
}

func acceptedIsThere(t *testing.T, h Harness) {
	d := h.open(t)
	events := append(d.events(20, 5), d.free(50)...)
	wantAll(t, publish(t, d, patience, events))
	checkDelivered(t, h, d, events)
	if got := d.Read(t); len(got) != len(events) {
		t.Fatalf("destination holds %d messages of %d events: without a fault there are no duplicates", len(got), len(events))
	}
}

func noEvents(t *testing.T, h Harness) {
	d := h.open(t)
	if errs := publish(t, d, patience, nil); len(errs) != 0 {
		t.Fatalf("%d results for no events", len(errs))
	}
}

func alignedResults(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.free(60)
	for i := range events {
		if i%7 == 3 {
			h.spoil(t, &events[i])
		}
	}
	for i, err := range publish(t, d, patience, events) {
		if bad := i%7 == 3; bad != (err != nil) {
			t.Fatalf("event %d: %v, want an error: %v", i, err, bad)
		}
	}
	if got := await(t, d, 51); len(got) != 51 {
		t.Fatalf("destination holds %d messages, want 51", len(got))
	}
}

func refusedInTheMiddle(t *testing.T, h Harness) {
	d := h.open(t)
	events := []relay.Event{d.event("a", 0), d.event("b", 0), d.event("b", 1), d.event("b", 2), d.event("c", 0), d.event("b", 3)}
	h.spoil(t, &events[2])
	errs := publish(t, d, patience, events)
	for i, err := range errs {
		switch i {
		case 2:
			if !relay.IsPermanent(err) && !relay.IsRejected(err) {
				t.Errorf("refused event: %v, want it permanent or rejected", err)
			}
		case 3, 5:
			if !errors.Is(err, relay.ErrHeld) {
				t.Errorf("event %d behind the refused one: %v, want ErrHeld", i, err)
			}
		default:
			if err != nil {
				t.Errorf("event %d of another key or before: %v", i, err)
			}
		}
	}
	checkDelivered(t, h, d, []relay.Event{events[0], events[1], events[4]})
}

func concurrentCalls(t *testing.T, h Harness) {
	d := h.open(t)
	var all []relay.Event
	var calls sync.WaitGroup
	for g := range 8 {
		var events []relay.Event
		for i := range 200 {
			events = append(events, d.event(fmt.Sprintf("caller-%d-%d", g, i%20), i/20))
		}
		all = append(all, events...)
		calls.Go(func() {
			for i := 0; i < len(events); i += 100 {
				ctx, cancel := within(t, patience)
				errs := d.Broker.Publish(ctx, events[i:i+100])
				cancel()
				for j, err := range errs {
					if err != nil {
						t.Errorf("event %s: %v", events[i+j].Identity, err)
					}
				}
			}
		})
	}
	calls.Wait()
	checkDelivered(t, h, d, all)
}

func dedup(t *testing.T, h Harness) {
	if !h.Caps.Dedup {
		t.Skip("the destination knows no dedup ids")
	}
	d := h.open(t)
	events := d.events(3, 2)
	wantAll(t, publish(t, d, patience, events))
	wantAll(t, publish(t, d, patience, events))
	if got := await(t, d, len(events)); len(got) != len(events) {
		t.Fatalf("destination holds %d messages of %d events sent twice", len(got), len(events))
	}
}

func replay(t *testing.T, h Harness) {
	d := h.open(t)
	e := d.event("a", 0)
	again := e
	again.Generation, again.DedupID = 1, e.Identity+"#1"
	wantAll(t, publish(t, d, patience, []relay.Event{e}))
	wantAll(t, publish(t, d, patience, []relay.Event{again}))
	if got := await(t, d, 2); len(got) != 2 {
		t.Fatalf("destination holds %d messages, want the event and its replay", len(got))
	}
}
