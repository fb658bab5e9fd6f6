package nats

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider/relay"
)

// Broker publishes to JetStream. It implements [relay.Broker] and the optional
// Destinationer, Addresser, TopicAddresser and Checker. Safe for concurrent use.
//
// It is no Mixer: Publish returns when its last event has an answer, and a
// stream without a quorum does not answer at all, so it would hold up the results
// of the others for the length of a publish timeout.
type Broker struct {
	cfg Config

	// dialing is held by the one call that makes the connection.
	dialing chan struct{}
	link    atomic.Pointer[link]
	closed  chan struct{}
	close   sync.Once

	// slots bounds the events that wait for their ack, over all calls: newer
	// servers drop what goes beyond a stream's max_buffered_msgs (10,000).
	slots   chan struct{}
	streams streams
}

var (
	_ relay.Broker         = (*Broker)(nil)
	_ relay.Destinationer  = (*Broker)(nil)
	_ relay.Addresser      = (*Broker)(nil)
	_ relay.TopicAddresser = (*Broker)(nil)
	_ relay.Checker        = (*Broker)(nil)
)

var errClosed = errors.New("nats broker: closed")

// New returns a broker. It does not connect: the first Publish or Check does.
func New(cfg Config) (*Broker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Broker{
		cfg:     cfg,
		dialing: make(chan struct{}, 1),
		closed:  make(chan struct{}),
		slots:   make(chan struct{}, cfg.MaxPending),
	}, nil
}

// Publish implements [relay.Broker].
func (b *Broker) Publish(ctx context.Context, events []relay.Event) []error {
	errs := make([]error, len(events))
	if len(events) == 0 {
		return errs
	}
	l, err := b.connect(ctx)
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	defer l.cutAfter(ctx)()

	c := newCall(events, errs)
	if b.cfg.CreateStream {
		b.streams.ensure(ctx, b, l, c)
	}
	l.acks.begin(c)
	l.sendHeads(ctx, b, c)
	select {
	case <-c.done:
	case <-ctx.Done():
	case <-b.closed:
	}
	l.acks.end(c, b, context.Cause(ctx))
	return errs
}

// Destination implements [relay.Destinationer]. It is the topic: one route makes
// all subjects of a topic, and they nearly always lie in one stream, which is
// what loses its quorum or fills up. The subject itself would be finer than what
// fails (a subject per key is thousands), and which stream takes it is known only
// after an ack. A single subject that no stream takes fails by itself all the
// same: other keys of its topic are accepted after it.
func (b *Broker) Destination(e relay.Event) string { return e.Topic }

// Close implements [relay.Broker].
func (b *Broker) Close(context.Context) error {
	b.close.Do(func() { close(b.closed) })
	if l := b.link.Load(); l != nil {
		l.close()
	}
	return nil
}

func (b *Broker) isClosed() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}
