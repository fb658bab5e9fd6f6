package nats

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"

	"github.com/postrider/postrider/relay"
)

// acks leads the answers of one connection back to the calls that wait.
//
// The reply subject of an event is "<inbox>.<call>-<index>", both in base 36.
// One subscription to "<inbox>.*" gets them all, in one goroutine.
type acks struct {
	mu    sync.Mutex
	last  uint64
	calls map[uint64]*call
	next  message // scratch for events sent from the ack goroutine
	inbox string
}

// replies makes the reply subjects of one call.
type replies struct {
	prefix string
	buf    []byte
}

func (r *replies) of(i int32) string {
	r.buf = strconv.AppendInt(append(r.buf[:0], r.prefix...), int64(i), 36)
	return string(r.buf)
}

// begin makes a call known, so that answers find it.
func (a *acks) begin(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	c.id = a.last
	c.reply.prefix = a.replyPrefix(c.id)
	a.calls[c.id] = c
}

func (a *acks) replyPrefix(id uint64) string {
	return a.inbox + "." + strconv.FormatUint(id, 36) + "-"
}

// end closes a call: after it nothing of the call is sent and nothing of it is
// kept. Whatever has no answer by now is of unknown fate if it was sent.
func (a *acks) end(c *call, b *Broker, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.over = true
	delete(a.calls, c.id)
	if c.left == 0 {
		return
	}
	for _, i := range c.heads {
		a.cutOff(c, b, i, cause)
	}
}

// cutOff decides what is left of one key. The first undecided event is the one
// that was on its way, or would have been the next to send.
func (a *acks) cutOff(c *call, b *Broker, i int32, cause error) {
	for ; i >= 0; i = c.next[i] {
		switch c.state[i].Swap(decided) {
		case decided:
			continue
		case sent:
			<-b.slots
			c.settle(i, gaveUp(b, &c.events[i], "no ack", cause))
		case unsent:
			c.settle(i, gaveUp(b, &c.events[i], "not sent", cause))
		}
		c.hold(i)
		return
	}
}

func gaveUp(b *Broker, e *relay.Event, what string, cause error) error {
	if cause == nil && b.isClosed() {
		return relay.Unavailable(errClosed)
	}
	return fmt.Errorf("publish to nats, topic %q: %s: %w", e.Topic, what, cause)
}

// handle is called for each answer, by the subscription's goroutine.
func (a *acks) handle(b *Broker, l *link, msg *natsgo.Msg) {
	if len(msg.Subject) <= len(a.inbox)+1 {
		return
	}
	callID, index, ok := strings.Cut(msg.Subject[len(a.inbox)+1:], "-")
	if !ok {
		return
	}
	id, err1 := strconv.ParseUint(callID, 36, 64)
	i, err2 := strconv.ParseUint(index, 36, 31)
	if errors.Join(err1, err2) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.calls[id]
	if c == nil || i >= uint64(len(c.events)) {
		return
	}
	a.follow(c, b, l, int32(i), b.answer(&c.events[i], msg))
}

// decide records the failure of a send.
func (a *acks) decide(c *call, b *Broker, l *link, i int32, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.follow(c, b, l, i, err)
}

// follow decides an event and sends what it was in the way of. The slot of the
// event passes to its follower. A follower that cannot be sent is decided in the
// next turn, and with it the rest of its key.
func (a *acks) follow(c *call, b *Broker, l *link, i int32, err error) {
	for {
		next := c.decide(i, err)
		if next == -2 {
			return
		}
		if next == -1 {
			<-b.slots
			return
		}
		if !c.state[next].CompareAndSwap(unsent, sent) {
			<-b.slots // refused before it was sent, with the rest of its key
			return
		}
		if err = a.next.publish(l.nc, &c.events[next], c.reply.prefix+strconv.FormatInt(int64(next), 36)); err == nil {
			return
		}
		i = next
	}
}

// fail decides every event that is on its way and whose topic or subject matches:
// no answer will come, since the connection was lost or the server refused it
// apart from the reply.
func (a *acks) fail(b *Broker, l *link, match func(*relay.Event) bool, err func(*relay.Event) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.calls {
		for i := range c.events {
			e := &c.events[i]
			if c.state[i].Load() == sent && match(e) {
				a.follow(c, b, l, int32(i), err(e))
			}
		}
	}
}
