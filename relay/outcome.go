package relay

import (
	"errors"
	"time"
)

// # Outcomes
//
// A call returns one error per event. What it means depends on who answered:
//
//	accepted     the row leaves for the history
//	rejected     the broker's answer for this event: it counts, the key waits
//	             for its back-off
//	permanent    the broker's last word: the route's policy applies at once
//	held         not sent, an earlier event of the key failed
//	otherwise    nobody answered for this event: nothing is counted; whether the
//	             destination or the key is at fault is found out (destination.go)

// published handles the results of a call, key by key.
func (p *pump) published(c *call, errs []error, took time.Duration) {
	accepted := p.accept(c, errs, took)
	if accepted == len(c.items) {
		for _, d := range c.dests {
			d.grow(len(c.items), took, p.r.cfg.PublishTimeout)
			d.growTurns(c.turns, took, p.r.cfg.PublishTimeout)
		}
	}
	// The items of one key stand together and in order: form took them so.
	for i := 0; i < len(c.items); {
		q := c.items[i].queue
		j := i
		for j < len(c.items) && c.items[j].queue == q {
			j++
		}
		q.sending -= j - i
		if accepted == len(c.items) {
			p.makeReady(q)
			p.dropQueue(q)
		} else {
			p.outcome(c, q, c.items[i:j], errs[i:j])
		}
		i = j
	}
	for _, d := range c.dests {
		p.activate(d)
	}
}

// accept takes what was accepted, and returns how many that are.
func (p *pump) accept(c *call, errs []error, took time.Duration) int {
	n := 0
	var last *queue
	now := time.Now().Add(p.clockAhead) // as the database, which dated the rows, has it
	for i, it := range c.items {
		if errs[i] != nil {
			continue
		}
		n++
		p.commitToAck.Observe(max(0, now.Sub(it.row.Queued)))
		p.deliver(it)
		if it.queue != last {
			last = it.queue
			if len(last.dest.suspects) > 0 || last.dest.state != destOpen {
				p.works(last.dest, c, it.suspectKey())
			}
		}
	}
	p.observePublish(took, len(c.items)-n)
	return n
}

// outcome handles the results of one key.
func (p *pump) outcome(c *call, q *queue, items []*item, errs []error) {
	first := -1
	for i, err := range errs {
		if err != nil {
			first = i
			break
		}
	}
	if first < 0 {
		p.makeReady(q)
		p.dropQueue(q)
		return
	}
	head, err := items[first], errs[first]
	var rest []*item
	for i := first + 1; i < len(items); i++ {
		if errs[i] != nil { // an accepted one behind a failed one is still accepted
			rest = append(rest, items[i])
		}
	}
	switch classOf(err) {
	case rejected, permanent:
		if c.term != p.term { // the lease was lost meanwhile: its new owner decides
			p.putBack(q, head, rest)
			return
		}
		if !errors.Is(err, errPanic) {
			p.works(q.dest, c, head.suspectKey())
		}
		p.counted(q, head, rest, err)
	default:
		if errors.Is(err, errPanic) {
			p.suspect(q.dest, head.suspectKey())
		}
		alone, times := p.failed(q.dest, head.suspectKey(), err)
		if alone && !q.dest.paused() {
			p.hold(q, head, rest, Mark{
				Ref: head.row.Ref, Held: HeldRetry, After: retryDelay(times),
				Attempts: head.row.Attempts, Error: safeError(err),
			})
			return
		}
		p.unmarkAlone(head, err)
		p.putBack(q, head, rest)
	}
}

// putBack forgets a key's rows after a failure that is nobody's: the table
// still has them, and brings them in order when the destination works again.
func (p *pump) putBack(q *queue, head *item, rest []*item) {
	p.release(head)
	for _, it := range rest {
		p.release(it)
	}
	p.forgetWaiting(q)
}

// suspect makes a key be sent alone until it has been accepted.
func (p *pump) suspect(d *destination, k suspectKey) {
	if d.suspects[k] == nil {
		d.suspects[k] = &suspect{seq: p.failSeq}
	}
}

// counted handles the broker's answer for one event: after its back-off it is
// tried again, unless its attempts have run out or the answer was final.
func (p *pump) counted(q *queue, head *item, rest []*item, err error) {
	rt := q.topic.route
	attempts := saturated(head.row.Attempts)
	delete(q.dest.suspects, head.suspectKey())
	final := classOf(err) == permanent || rt.MaxAttempts > 0 && attempts >= rt.MaxAttempts
	switch {
	case !final:
		p.hold(q, head, rest, Mark{
			Ref: head.row.Ref, Held: HeldRetry, After: retryDelay(attempts),
			Attempts: attempts, Error: safeError(err),
		})
	case rt.deadLetters(q.key.Key):
		p.bury(q, head, rest, attempts, err)
	default:
		p.hold(q, head, rest, Mark{
			Ref: head.row.Ref, Held: HeldBlocked, Attempts: attempts, Error: safeError(err),
		})
		p.log.Warn("key blocked", "topic", q.key.Topic, "key", p.safeKey(q.key.Key), "event", head.row.EventID, "attempts", attempts, "error", safeError(err),
			"hint", `see "postrider why", then release the key or skip the event ("A blocked key" in docs/cli.md)`)
	}
}

// deadLetters is the route's policy for an event that failed for good.
func (r *route) deadLetters(key string) bool {
	if r.OnFailure == "" {
		return key == ""
	}
	return r.OnFailure == OnFailureDeadLetter
}
