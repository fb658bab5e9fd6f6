package fault

import (
	"context"

	"github.com/postrider/postrider/relay"
)

// Broker wraps a broker. It passes on what the broker says about itself, and
// has each optional interface with its default where the broker has none.
type Broker struct {
	inner relay.Broker
	in    *Injector
}

var (
	_ relay.Broker        = (*Broker)(nil)
	_ relay.Destinationer = (*Broker)(nil)
	_ relay.Mixer         = (*Broker)(nil)
	_ relay.Addresser     = (*Broker)(nil)
	_ relay.Checker       = (*Broker)(nil)
)

// NewBroker wraps a broker.
func NewBroker(b relay.Broker, in *Injector) *Broker { return &Broker{b, in} }

// Publish implements [relay.Broker].
func (b *Broker) Publish(ctx context.Context, events []relay.Event) []error {
	f, err := b.in.begin(ctx, "Publish", len(events))
	if err != nil {
		return fill(len(events), err)
	}
	sent := events
	if f.Events > 0 && f.Events < len(events) {
		sent = events[:f.Events]
	}
	alive, cancel := b.in.alive(ctx)
	results := b.inner.Publish(alive, sent)
	cancel()
	if lost := b.in.end(ctx, f); lost != nil {
		return fill(len(events), lost)
	}
	return append(results, fill(len(events)-len(sent), ErrHung)...)
}

func fill(n int, err error) []error {
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}

// Close implements [relay.Broker]. It is passed on also after a crash, for a
// test to clean up.
func (b *Broker) Close(ctx context.Context) error { return b.inner.Close(ctx) }

// Destination implements [relay.Destinationer].
func (b *Broker) Destination(e relay.Event) string {
	if d, ok := b.inner.(relay.Destinationer); ok {
		return d.Destination(e)
	}
	return ""
}

// MixesDestinations implements [relay.Mixer].
func (b *Broker) MixesDestinations() bool {
	m, ok := b.inner.(relay.Mixer)
	return ok && m.MixesDestinations()
}

// EscapeToken implements [relay.Addresser].
func (b *Broker) EscapeToken(token string) string {
	if a, ok := b.inner.(relay.Addresser); ok {
		return a.EscapeToken(token)
	}
	return token
}

// EscapeTopic implements [relay.TopicAddresser].
func (b *Broker) EscapeTopic(topic string) string {
	if a, ok := b.inner.(relay.TopicAddresser); ok {
		return a.EscapeTopic(topic)
	}
	return b.EscapeToken(topic)
}

// Check implements [relay.Checker].
func (b *Broker) Check(ctx context.Context) ([]relay.Finding, error) {
	c, ok := b.inner.(relay.Checker)
	if !ok {
		return nil, nil
	}
	return do(ctx, b.in, "Check", 0, c.Check)
}
