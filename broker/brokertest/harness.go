package brokertest

import (
	"testing"

	"github.com/postrider/postrider/relay"
)

// Harness is how the suite meets one kind of broker.
type Harness struct {
	// New returns a broker with a destination that no other case uses. The
	// server may be shared. The suite closes the broker.
	New func(t testing.TB) *Target
	// Faulty returns a broker on a server of its own, which may be broken.
	// Nil leaves the cases about faults out: there is no server to break.
	Faulty func(t testing.TB) *Faulty
	// Unreachable returns a broker whose server is not there. Nil leaves the
	// case out.
	Unreachable func(t testing.TB) relay.Broker
	// Spoil changes an event so that the destination refuses it for itself.
	// Default: it is made larger than Caps.MaxBytes. The cases about refused
	// events are left out where there is neither.
	Spoil func(e *relay.Event)
	// Raw sends events by the protocol's bare client, as quickly as that can,
	// and waits until the server has acknowledged them. For Bench only.
	Raw func(t testing.TB, d *Target, events []relay.Event)
	// Caps are what the destination can do.
	Caps Caps
}

// Target is a broker and the far end of it.
type Target struct {
	// Broker is under test.
	Broker relay.Broker
	// Destination is what events are addressed to.
	Destination string
	// Read returns everything that the destination has accepted so far, in the
	// order in which it did, where Caps.Ordered.
	Read func(t testing.TB) []Received
}

// Faulty is a target whose server and network can be broken. A nil function
// leaves the case that needs it out.
type Faulty struct {
	Target
	// Restart kills the server as a crash does, and starts it on the same data.
	Restart func()
	// Pause makes server or network silent without closing a connection;
	// Resume ends it.
	Pause, Resume func()
	// LoseAcks lets requests through and no reply, until FindAcks.
	LoseAcks, FindAcks func()
	// Cut breaks every open connection.
	Cut func()
}

// Received is a message at the destination.
type Received struct {
	// ID is the event's DedupID, or its Identity where the destination knows no
	// dedup id.
	ID string
	// Headers are as in [relay.Event]: attributes under "ce-", and values as
	// they were before the protocol's encoding.
	Headers map[string]string
	// ContentType is the media type that came with the message.
	ContentType string
	// Payload is the body; nil only where Caps.Tombstones.
	Payload []byte
}

// Caps are documented abilities of a destination.
type Caps struct {
	// Ordered: what is read comes in the order in which it was accepted.
	Ordered bool
	// Headers: messages carry headers.
	Headers bool
	// Dedup: a message with a known dedup id is accepted and not kept again.
	Dedup bool
	// Tombstones: a nil payload stays apart from one of 0 bytes.
	Tombstones bool
	// MaxBytes is the size above which the destination refuses an event; 0 for
	// none. Payloads of half of it pass.
	MaxBytes int
}

// Run runs the suite. Cases are parallel.
func Run(t *testing.T, h Harness) {
	for _, cases := range [][]testCase{acceptCases, orderCases, contentCases, contextCases, faultCases, closeCases} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, h)
			})
		}
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, h Harness)
}

func (h Harness) open(t testing.TB) *Target {
	d := h.New(t)
	t.Cleanup(func() { _ = d.Broker.Close(t.Context()) })
	return d
}

func (h Harness) openFaulty(t testing.TB, needed func(*Faulty) bool) *Faulty {
	if h.Faulty == nil {
		t.Skip("the destination has no server of its own to break")
	}
	f := h.Faulty(t)
	t.Cleanup(func() { _ = f.Broker.Close(t.Context()) })
	if !needed(f) {
		t.Skip("the harness cannot make this fault")
	}
	return f
}

func (h Harness) spoil(t testing.TB, e *relay.Event) {
	switch {
	case h.Spoil != nil:
		h.Spoil(e)
	case h.Caps.MaxBytes > 0:
		e.Payload = make([]byte, h.Caps.MaxBytes+1)
	default:
		t.Skip("the destination refuses nothing")
	}
}
