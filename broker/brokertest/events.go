package brokertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// patience is how long a case waits for what must come. It is never how long
// something may take: a slow machine is not a fault.
const patience = 60 * time.Second

// event is the seq-th of its key.
func (d *Target) event(key string, seq int) relay.Event {
	id := fmt.Sprintf("%s/%d", key, seq)
	return relay.Event{
		Identity:    id,
		DedupID:     id,
		Database:    "db",
		Topic:       d.Destination,
		Key:         key,
		Type:        "tested",
		Destination: d.Destination,
		ContentType: "text/plain",
		Payload:     []byte(id),
		Headers:     map[string]string{"ce-id": id},
		Created:     time.Now(),
		Due:         time.Now(),
	}
}

// events makes perKey events for each of keys keys, interleaved.
func (d *Target) events(keys, perKey int) []relay.Event {
	out := make([]relay.Event, 0, keys*perKey)
	for seq := range perKey {
		for k := range keys {
			out = append(out, d.event(fmt.Sprintf("key-%d", k), seq))
		}
	}
	return out
}

// free makes n events without a key.
func (d *Target) free(n int) []relay.Event {
	out := make([]relay.Event, n)
	for i := range out {
		out[i] = d.event("free", i)
		out[i].Key = ""
	}
	return out
}

// publish calls Publish once and checks what holds of every result.
func publish(t testing.TB, d *Target, timeout time.Duration, events []relay.Event) []error {
	t.Helper()
	ctx, cancel := within(t, timeout)
	defer cancel()
	errs := d.Broker.Publish(ctx, events)
	checkResults(t, events, errs)
	return errs
}

// checkResults: one result per event, and an event is held exactly when an
// earlier one of its key has failed. A call that failed as a whole, before
// anything was sent, may report its one error for each event instead.
func checkResults(t testing.TB, events []relay.Event, errs []error) {
	t.Helper()
	if len(errs) != len(events) {
		t.Fatalf("%d results for %d events", len(errs), len(events))
	}
	if !slices.ContainsFunc(errs, func(err error) bool { return err == nil || errors.Is(err, relay.ErrHeld) }) {
		return
	}
	failed := map[string]bool{}
	for i, e := range events {
		held := errors.Is(errs[i], relay.ErrHeld)
		switch {
		case e.Key != "" && failed[e.Key] && errs[i] == nil:
			t.Fatalf("event %d of key %q: accepted after an earlier one of the key has failed", i, e.Key)
		case held && (e.Key == "" || !failed[e.Key]):
			t.Fatalf("event %d of key %q: held, and no earlier one of the key has failed", i, e.Key)
		case e.Key != "" && failed[e.Key] && !held:
			t.Fatalf("event %d of key %q: %v, want ErrHeld behind a failed event", i, e.Key, errs[i])
		}
		failed[e.Key] = failed[e.Key] || errs[i] != nil
	}
}

// wantAll fails the test unless every event was accepted.
func wantAll(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
}

// await reads until the destination holds at least n messages.
func await(t testing.TB, d *Target, n int) []Received {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		got := d.Read(t)
		if len(got) >= n {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("destination holds %d messages, want %d", len(got), n)
		}
	}
}

// drive is a relay in miniature: it sends what is left until all is accepted.
func drive(t testing.TB, d *Target, events []relay.Event) {
	t.Helper()
	pending := slices.Clone(events)
	for end := time.Now().Add(patience); len(pending) > 0; {
		errs := publish(t, d, 2*time.Second, pending)
		var left []relay.Event
		for i, err := range errs {
			if relay.IsPermanent(err) || relay.IsRejected(err) {
				t.Fatalf("event %s: %v: a fault is not the event's", pending[i].Identity, err)
			}
			if err != nil {
				left = append(left, pending[i])
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d events not accepted: %v", len(left), len(events), errs[0])
		}
		if len(left) == len(pending) {
			time.Sleep(20 * time.Millisecond)
		}
		pending = left
	}
}

// checkDelivered: every event is there, nothing else is, and first deliveries of
// each key are in order.
func checkDelivered(t testing.TB, h Harness, d *Target, events []relay.Event) {
	t.Helper()
	got := await(t, d, len(events))
	want := map[string]relay.Event{}
	for _, e := range events {
		want[e.DedupID] = e
	}
	first := map[string]bool{}
	var order []string
	for _, r := range got {
		if _, ok := want[r.ID]; !ok {
			t.Fatalf("destination holds %q, which was never published", r.ID)
		}
		if !first[r.ID] {
			first[r.ID] = true
			order = append(order, r.ID)
		}
	}
	for _, e := range events {
		if !first[e.DedupID] {
			t.Fatalf("event %s: accepted, and not at the destination", e.DedupID)
		}
	}
	if h.Caps.Ordered {
		checkOrder(t, want, events, order)
	}
}

func checkOrder(t testing.TB, byID map[string]relay.Event, events []relay.Event, order []string) {
	t.Helper()
	sent := map[string][]string{}
	for _, e := range events {
		sent[e.Key] = append(sent[e.Key], e.DedupID)
	}
	at := map[string]int{}
	for _, id := range order {
		key := byID[id].Key
		if key == "" {
			continue
		}
		if want := sent[key][at[key]]; id != want {
			t.Fatalf("key %q: first delivery of %s where %s was next", key, id, want)
		}
		at[key]++
	}
}
