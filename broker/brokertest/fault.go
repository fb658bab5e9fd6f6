package brokertest

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

var faultCases = []testCase{
	{"an unreachable server makes each event unavailable", unreachable},
	{"a server restarted in mid-batch loses nothing that was accepted", restarted},
	{"broken connections lose nothing that was accepted", broken},
	{"an event whose ack was lost is an error and is sent again", lostAcks},
	{"a half-open connection holds no call beyond its ctx", halfOpen},
	{"a write that hangs holds no call beyond its ctx", hangingWrite},
}

func unreachable(t *testing.T, h Harness) {
	if h.Unreachable == nil {
		t.Skip("the destination is always there")
	}
	d := &Target{Broker: h.Unreachable(t), Destination: "nowhere"}
	t.Cleanup(func() { _ = d.Broker.Close(t.Context()) })
	events := append(d.events(3, 2), d.free(3)...)
	ctx, cancel := within(t, patience)
	defer cancel()
	for i, err := range d.Broker.Publish(ctx, events) {
		if !relay.IsUnavailable(err) {
			t.Errorf("event %d: %v, want it unavailable", i, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("the call lasted until its context ended")
	}
}

// restarted and broken send a load by a relay in miniature while the fault
// happens again and again.
func restarted(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.Restart != nil })
	underFault(t, h, f, 3, f.Restart)
}

func broken(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.Cut != nil })
	underFault(t, h, f, 10, f.Cut)
}

func underFault(t *testing.T, h Harness, f *Faulty, times int, fault func()) {
	var all []relay.Event
	warm := f.events(1, 1)
	wantAll(t, publish(t, &f.Target, patience, warm))
	for round := range times {
		var events []relay.Event
		for seq := range 40 {
			for k := range 50 {
				e := f.event(keyName(round, k), seq)
				events = append(events, e)
			}
		}
		all = append(all, events...)
		done := make(chan struct{})
		go func() {
			defer close(done)
			drive(t, &f.Target, events)
		}()
		fault() // while the load is on its way; restarts need the test's goroutine
		<-done
		if t.Failed() {
			return
		}
	}
	checkDelivered(t, h, &f.Target, append(warm, all...))
}

func lostAcks(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.LoseAcks != nil })
	wantAll(t, publish(t, &f.Target, patience, []relay.Event{f.event("warm", 0)}))
	events := append(f.events(10, 5), f.free(10)...)
	f.LoseAcks()
	for i, err := range publish(t, &f.Target, 500*time.Millisecond, events) {
		if err == nil {
			t.Errorf("event %d: accepted without an ack", i)
		}
		if relay.IsPermanent(err) || relay.IsRejected(err) {
			t.Errorf("event %d: %v: a lost ack is not the event's failure", i, err)
		}
	}
	f.FindAcks()
	drive(t, &f.Target, events)
	all := slices.Concat(events, []relay.Event{f.event("warm", 0)})
	checkDelivered(t, h, &f.Target, all)
	if got := f.Read(t); h.Caps.Dedup && len(got) != len(all) {
		t.Errorf("destination holds %d messages of %d events: it knew their dedup ids", len(got), len(all))
	}
}

func halfOpen(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.Pause != nil })
	silent(t, h, f, f.events(10, 3))
}

// hangingWrite sends more than the buffers between the two ends hold.
func hangingWrite(t *testing.T, h Harness) {
	f := h.openFaulty(t, func(f *Faulty) bool { return f.Pause != nil })
	size := 256 << 10
	if h.Caps.MaxBytes > 0 {
		size = min(size, h.Caps.MaxBytes/2)
	}
	events := f.events(64<<20/size/2, 2)
	for i := range events {
		events[i].Payload = append(events[i].Payload, make([]byte, size)...)
	}
	silent(t, h, f, events)
}

func silent(t *testing.T, h Harness, f *Faulty, events []relay.Event) {
	warm := f.event("warm", 0)
	wantAll(t, publish(t, &f.Target, patience, []relay.Event{warm}))
	f.Pause()
	start := time.Now()
	errs := publish(t, &f.Target, time.Second, events)
	if took := time.Since(start); took > patience/2 {
		t.Errorf("call lasted %s with a context of one second", took)
	}
	for i, err := range errs {
		if err == nil {
			t.Errorf("event %d: accepted by a silent server", i)
		}
	}
	f.Resume()
	drive(t, &f.Target, events)
	checkDelivered(t, h, &f.Target, append(events, warm))
}

func keyName(round, k int) string {
	return "round-" + string(rune('a'+round)) + "-" + string(rune('A'+k))
}
