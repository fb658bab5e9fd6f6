package brokertest

import (
	"errors"
	"testing"

	"github.com/postrider/postrider/relay"
)

var orderCases = []testCase{
	{"events that share a key reach the destination in slice order", sliceOrder},
	{"a single key of many events keeps its order", oneKey},
	{"after one fails the later ones of that key are not sent and report ErrHeld", heldKeys},
	{"events with an empty key are independent of each other", emptyKeys},
	{"the failure of a key ends with the call", nextCall},
}

func sliceOrder(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.events(50, 20)
	wantAll(t, publish(t, d, patience, events))
	checkDelivered(t, h, d, events)
}

func oneKey(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.events(1, 300)
	wantAll(t, publish(t, d, patience, events))
	checkDelivered(t, h, d, events)
}

func heldKeys(t *testing.T, h Harness) {
	d := h.open(t)
	// The first, a middle and the last event of some keys are refused.
	events := d.events(20, 6)
	bad := map[string]int{"key-3": 0, "key-7": 2, "key-11": 5}
	var good []relay.Event
	seen := map[string]int{}
	for i := range events {
		key := events[i].Key
		seq := seen[key]
		seen[key]++
		at, spoilt := bad[key]
		switch {
		case !spoilt || seq < at:
			good = append(good, events[i])
		case seq == at:
			h.spoil(t, &events[i])
		}
	}
	errs := publish(t, d, patience, events) // checks who is held
	accepted := 0
	for _, err := range errs {
		if err == nil {
			accepted++
		}
	}
	if accepted != len(good) {
		t.Errorf("%d events accepted, want %d", accepted, len(good))
	}
	checkDelivered(t, h, d, good)
}

func emptyKeys(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.free(10)
	h.spoil(t, &events[4])
	for i, err := range publish(t, d, patience, events) {
		if errors.Is(err, relay.ErrHeld) || (err != nil) != (i == 4) {
			t.Errorf("event %d: %v", i, err)
		}
	}
	await(t, d, 9)
}

func nextCall(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.events(1, 3)
	whole := events[0]
	h.spoil(t, &events[0])
	publish(t, d, patience, events)
	events[0] = whole
	wantAll(t, publish(t, d, patience, events))
	checkDelivered(t, h, d, events)
}
