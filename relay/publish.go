package relay

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// start sends a call. Its events are made in the call's own goroutine, so that
// encoding does not hold up the loop.
func (p *pump) start(c *call) {
	c.began = time.Now()
	c.outlet.calls++
	p.calls++
	p.sent[c] = c.began
	if p.slow.alone() {
		p.sendAlone(c)
		return
	}
	p.send(c)
}

func (p *pump) send(c *call) {
	history := p.history
	p.spawn(func() func() {
		began := time.Now()
		ctx, cancel := context.WithTimeout(p.callsCtx, p.r.cfg.PublishTimeout)
		defer cancel()
		errs := p.publish(ctx, c)
		took := time.Since(began)
		return func() {
			p.returned(c)
			if p.history == history {
				p.published(c, errs, took)
			}
		}
	})
}

// returned takes a call off the books.
func (p *pump) returned(c *call) {
	c.outlet.calls--
	p.calls--
	delete(p.sent, c)
	now := time.Now()
	for _, d := range c.dests {
		d.calls--
		d.moved = now
		p.unpark(d, now)
	}
	if c.solo {
		c.items[0].queue.dest.solos--
	}
}

// publish makes the events of a call and hands them to the broker. The result
// has one error per item.
//
// An event that cannot be made (a template that asks for a header it does not
// have, an encoding that its format cannot carry) fails for good, and the later
// events of its key in the call are held back behind it.
func (p *pump) publish(ctx context.Context, c *call) []error {
	errs := make([]error, len(c.items))
	events := make([]Event, 0, len(c.items))
	sent := make([]int, 0, len(c.items))
	var broken map[*queue]bool
	for i, it := range c.items {
		if broken[it.queue] {
			errs[i] = ErrHeld
			continue
		}
		e, err := it.queue.topic.route.event(p.db.Name, &it.row)
		if err != nil {
			errs[i] = p.withhold(Permanent(err), it.queue.topic.route, &it.row)
			if broken == nil {
				broken = map[*queue]bool{}
			}
			broken[it.queue] = true
			continue
		}
		events = append(events, e)
		sent = append(sent, i)
	}
	if len(events) == 0 {
		return errs
	}
	results := safePublish(ctx, c.broker, events)
	for j, i := range sent {
		if errs[i] = results[j]; errs[i] != nil && !errors.Is(errs[i], ErrHeld) {
			it := c.items[i]
			errs[i] = p.withhold(errs[i], it.queue.topic.route, &it.row)
		}
	}
	return errs
}

// errPanic marks the failure of a call in which the broker panicked.
var errPanic = errors.New("panic in publish")

// safePublish calls the broker. A panic is the failure of the event if it was
// alone, and of unknown cause for each of several: they become suspects and are
// sent alone the next time. What the panic says is kept only then, because it
// may quote any event of its call.
func safePublish(ctx context.Context, b Broker, events []Event) (errs []error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		err := fmt.Errorf("%w: %T", errPanic, v)
		if len(events) == 1 {
			err = Permanent(fmt.Errorf("%w: %v", errPanic, v))
		}
		errs = repeat(err, len(events))
	}()
	errs = b.Publish(ctx, events)
	if len(errs) != len(events) {
		return repeat(fmt.Errorf("broker answered %d events with %d results", len(events), len(errs)), len(events))
	}
	return errs
}

func repeat(err error, n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// overdue reports whether a call has not returned long after its context ended.
// A relay with such a call stops renewing its lease: its keys are stuck here.
func (p *pump) overdue(now time.Time) bool {
	for _, began := range p.sent {
		if now.Sub(began) > 3*p.r.cfg.PublishTimeout {
			return true
		}
	}
	return false
}
