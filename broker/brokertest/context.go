package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

var contextCases = []testCase{
	{"Publish returns when ctx is done before it starts", doneBefore},
	{"a send that outlives ctx lets no later event of its key pass", cutOff},
}

func within(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

func doneBefore(t *testing.T, h Harness) {
	d := h.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	events := d.events(3, 3)
	errs := d.Broker.Publish(ctx, events)
	checkResults(t, events, errs)
	for i, err := range errs {
		if relay.IsPermanent(err) || relay.IsRejected(err) {
			t.Errorf("event %d: %v: a done context is not the event's failure", i, err)
		}
	}
	wantAll(t, publish(t, d, patience, events))
	checkDelivered(t, h, d, events)
}

// cutOff cancels calls at many moments. After each, the destination may hold, of
// each key, what was accepted and at most one event more, the next: its ack was
// not waited for. What the relay then sends must still come first in order.
func cutOff(t *testing.T, h Harness) {
	d := h.open(t)
	var all []relay.Event
	for round := range 12 {
		var events []relay.Event
		for seq := range 20 {
			for k := range 20 {
				events = append(events, d.event(fmt.Sprintf("round-%d-key-%d", round, k), seq))
			}
		}
		all = append(all, events...)
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(round*round)*100*time.Microsecond, cancel)
		errs := d.Broker.Publish(ctx, events)
		stop.Stop()
		cancel()
		checkResults(t, events, errs)
		all = append(all, checkCutOff(t, d, events, errs))
		drive(t, d, events)
	}
	checkDelivered(t, h, d, all)
}

// checkCutOff looks twice, with an event of another key accepted in between: what
// was under way when the call returned has arrived by then.
func checkCutOff(t testing.TB, d *Target, events []relay.Event, errs []error) (mark relay.Event) {
	t.Helper()
	mark = d.event("mark-"+events[0].Key, 0)
	mark.Payload = []byte("mark")
	wantAll(t, publish(t, d, patience, []relay.Event{mark}))
	accepted, there := map[string]int{}, map[string]int{}
	keyOf := map[string]string{}
	for i, e := range events {
		keyOf[e.DedupID] = e.Key
		if errs[i] == nil {
			accepted[e.Key]++
		}
	}
	for _, r := range d.Read(t) {
		if key, ok := keyOf[r.ID]; ok {
			there[key]++
		}
	}
	for key, n := range there {
		if n > accepted[key]+1 {
			t.Fatalf("key %q: %d events at the destination after %d accepted and a cancelled call", key, n, accepted[key])
		}
	}
	for key, n := range accepted {
		if there[key] < n {
			t.Fatalf("key %q: %d events at the destination, %d accepted", key, there[key], n)
		}
	}
	return mark
}
