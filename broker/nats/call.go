package nats

import (
	"context"
	"sync/atomic"

	"github.com/postrider/postrider/relay"
)

// call is the state of one Publish.
//
// An event is unsent, then sent, then decided. Its state is written by the
// sender and read by the goroutine that handles acks, hence atomic; everything
// else is guarded by acks.mu.
type call struct {
	id     uint64
	events []relay.Event
	errs   []error
	state  []atomic.Uint32
	// next is the index of the next event of the same key, or -1.
	next []int32
	// heads are the events that wait for no other, in slice order.
	heads []int32

	left  int // not decided
	over  bool
	done  chan struct{}
	reply replies
}

const (
	unsent uint32 = iota
	sent
	decided
)

func newCall(events []relay.Event, errs []error) *call {
	c := &call{
		events: events,
		errs:   errs,
		state:  make([]atomic.Uint32, len(events)),
		next:   make([]int32, len(events)),
		heads:  make([]int32, 0, len(events)),
		left:   len(events),
		done:   make(chan struct{}),
	}
	last := make(map[string]int32, len(events))
	for i := range events {
		c.next[i] = -1
		key := events[i].Key
		if key != "" {
			before, ok := last[key]
			last[key] = int32(i)
			if ok {
				c.next[before] = int32(i)
				continue
			}
		}
		c.heads = append(c.heads, int32(i))
	}
	return c
}

// sendHeads sends the first event of each key. The connection may be lost or the
// context done at any moment of it; what was not sent then is decided by end.
func (l *link) sendHeads(ctx context.Context, b *Broker, c *call) {
	var m message
	for _, i := range c.heads {
		if c.state[i].Load() == decided { // refused before it was sent
			continue
		}
		select {
		case b.slots <- struct{}{}:
		default:
			select {
			case b.slots <- struct{}{}:
			case <-ctx.Done():
				return
			case <-b.closed:
				return
			}
		}
		if ctx.Err() != nil {
			<-b.slots
			return
		}
		if !c.state[i].CompareAndSwap(unsent, sent) {
			<-b.slots
			continue
		}
		if err := m.publish(l.nc, &c.events[i], c.reply.of(i)); err != nil {
			l.acks.decide(c, b, l, i, err)
		}
	}
}

// decided records the outcome of an event that was sent, and tells what follows:
// the next event of its key to send, or -1. The caller holds acks.mu.
func (c *call) decide(i int32, err error) (follow int32) {
	if c.over || !c.state[i].CompareAndSwap(sent, decided) {
		return -2 // answered twice, or too late
	}
	c.settle(i, err)
	if err == nil {
		return c.next[i]
	}
	c.hold(i)
	return -1
}

// hold decides the rest of a key behind a failed event.
func (c *call) hold(i int32) {
	for i = c.next[i]; i >= 0; i = c.next[i] {
		if c.state[i].Swap(decided) != decided {
			c.settle(i, relay.ErrHeld)
		}
	}
}

func (c *call) settle(i int32, err error) {
	c.errs[i] = err
	if c.left--; c.left == 0 {
		close(c.done)
	}
}
