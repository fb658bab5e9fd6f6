package nats_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
)

func TestCreateStream(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, s.URL())
	// One that exists, with another window and a limit, stays as it is.
	makeStream(t, js, jetstream.StreamConfig{Name: "bills", Subjects: []string{"bills.paid"}, Duplicates: 7 * time.Second})
	makeStream(t, js, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew})

	for range 2 { // the second relay finds everything made
		b := newBroker(t, nats.Config{URL: s.URL(), CreateStream: true, Stream: nats.Stream{DuplicateWindow: 30 * time.Second}})
		events := []relay.Event{
			event("1", "orders.created", nil), event("2", "orders", nil), event("3", "orders.a.b", nil),
			event("4", "bills.paid", nil), event("5", "other.x", nil), event("6", "bills.sent", nil),
		}
		for i, err := range b.Publish(t.Context(), events) {
			if wrong := i == 5; wrong != relay.IsUnavailable(err) || !wrong && err != nil {
				t.Errorf("event %s: %v", events[i].Destination, err)
			}
		}
	}
	for name, want := range map[string]string{"orders": "orders orders.>", "bills": "bills.paid", "OTHER": "other.>"} {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Errorf("stream %s: %v", name, err)
			continue
		}
		c := stream.CachedInfo().Config
		if got := strings.Join(c.Subjects, " "); got != want {
			t.Errorf("stream %s takes %q, want %q", name, got, want)
		}
		if name == "orders" && (c.Duplicates != 30*time.Second || c.Storage != jetstream.FileStorage) {
			t.Errorf("stream orders: %+v", c)
		}
	}
}

// Somebody who removes a stream must not have to restart every relay.
func TestCreateStream_AgainAfterItWasRemoved(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, s.URL())
	for _, stream := range []nats.Stream{{}, {Name: "orders", Subjects: []string{"orders.>"}}} {
		b := newBroker(t, nats.Config{URL: s.URL(), CreateStream: true, Stream: stream})
		if err := publishOne(t, b, event("1", "orders.created", nil)); err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteStream(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		if err := publishOne(t, b, event("2", "orders.created", nil)); !relay.IsUnavailable(err) {
			t.Errorf("without a stream: %v", err)
		}
		if err := publishOne(t, b, event("2", "orders.created", nil)); err != nil {
			t.Errorf("the next try: %v", err)
		}
	}
}

// The bound is for streams that are made; those that were there do not count.
func TestCreateStream_BesideManyThatAreThere(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, s.URL())
	b := newBroker(t, nats.Config{URL: s.URL(), CreateStream: true})
	var events []relay.Event
	var subjects []string
	for i := range 70 {
		subjects = append(subjects, fmt.Sprintf("t%d.there", i))
		events = append(events, event(fmt.Sprint(i), subjects[i], nil))
	}
	makeStream(t, js, jetstream.StreamConfig{Name: "ALL", Subjects: subjects, Storage: jetstream.MemoryStorage})
	for i, err := range b.Publish(t.Context(), events) {
		if err != nil {
			t.Errorf("event %d: %v", i, err)
		}
	}
	if err := publishOne(t, b, event("new", "orders", nil)); err != nil {
		t.Errorf("a new stream: %v", err)
	}
}

func TestCreateStream_Named(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	cfg, err := nats.Parse(s.URL()+"?create_stream=true&stream=EVENTS&subjects=a.>,b", map[string]string{"max_age": "1h"})
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, cfg)
	for _, subject := range []string{"a.x", "b"} {
		if err := publishOne(t, b, event(subject, subject, nil)); err != nil {
			t.Errorf("subject %s: %v", subject, err)
		}
	}
	stream, err := connect(t, s.URL()).Stream(t.Context(), "EVENTS")
	if err != nil || stream.CachedInfo().Config.MaxAge != time.Hour {
		t.Errorf("stream EVENTS: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, s.URL())
	for _, c := range []struct {
		cfg  jetstream.StreamConfig
		want string
	}{
		{jetstream.StreamConfig{Name: "ONE"}, "one copy"},
		{jetstream.StreamConfig{Name: "MEM", Storage: jetstream.MemoryStorage}, "memory only"},
		{jetstream.StreamConfig{Name: "WINDOW", Duplicates: time.Second}, "dedup ids for 1s"},
		{jetstream.StreamConfig{Name: "NOACK", NoAck: true}, "acknowledges nothing"},
		{jetstream.StreamConfig{Name: "INTEREST", Retention: jetstream.InterestPolicy}, "no consumer"},
		{jetstream.StreamConfig{Name: "OLD", MaxMsgs: 5}, "discards its oldest"},
	} {
		c.cfg.Subjects = []string{c.cfg.Name}
		makeStream(t, js, c.cfg)
		b := newBroker(t, nats.Config{URL: s.URL(), Stream: nats.Stream{Name: c.cfg.Name}})
		found, err := b.Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ok := false
		for _, f := range found {
			ok = ok || strings.Contains(f.Problem, c.want) && strings.Contains(f.Problem, c.cfg.Name) && f.Hint != ""
		}
		if !ok {
			t.Errorf("stream %s: %v, want a finding with %q", c.cfg.Name, found, c.want)
		}
	}
	// Without a name: those that have acknowledged something.
	b := newBroker(t, nats.Config{URL: s.URL()})
	if all, err := b.Check(t.Context()); err != nil || len(all) < 6 {
		t.Errorf("all streams: %d findings, %v", len(all), err)
	}
	if err := publishOne(t, b, event("e", "ONE", nil)); err != nil {
		t.Fatal(err)
	}
	found, err := b.Check(t.Context())
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Problem, "ONE") {
		t.Errorf("after an ack of ONE: %v, %v", found, err)
	}
	if _, err := newBroker(t, nats.Config{URL: "nats://127.0.0.1:1"}).Check(t.Context()); !relay.IsUnavailable(err) {
		t.Errorf("unreachable: %v", err)
	}
	off := testenv.StartNATS(t, testenv.NATSConfig{NoJetStream: true})
	found, err = newBroker(t, nats.Config{URL: off.URL()}).Check(t.Context())
	if err != nil || len(found) != 1 || !strings.Contains(found[0].Problem, "JetStream") {
		t.Errorf("without JetStream: %v, %v", found, err)
	}
}

// TestFullStream: a stream that refuses is a destination that waits, not an event
// that failed.
func TestFullStream(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, s.URL())
	makeStream(t, js, jetstream.StreamConfig{Name: "FULL", Subjects: []string{"full"}, MaxMsgs: 1, Discard: jetstream.DiscardNew})
	b := newBroker(t, nats.Config{URL: s.URL()})
	errs := b.Publish(t.Context(), []relay.Event{event("1", "full", nil), event("2", "full", nil)})
	if errs[0] != nil || !relay.IsUnavailable(errs[1]) {
		t.Errorf("results %v, want the second unavailable", errs)
	}
}
