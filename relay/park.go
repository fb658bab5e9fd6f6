package relay

import "time"

// # Parking
//
// A destination that does not answer must not fill the memory with what waits
// for it, or the others starve. When there is no room for a fetch, what waits
// for destinations that are stuck makes room:
//
//   - of a destination that its topics share with no other, it is forgotten, and
//     the topics are left out of the fetch until a call returns;
//   - where the destination varies within a topic the fetch would bring the same
//     rows again. So they are held in the store, for as long as the destination
//     pauses.
//
// Nothing is parked while there is room, and nothing of a destination that
// moves.

// stuckAfter is how long a destination's calls may be out before what waits for
// it may have to make room.
const stuckAfter = 250 * time.Millisecond

// park makes room, and reports whether it did. Otherwise the loop is woken when
// it may.
func (p *pump) park(now time.Time) bool {
	if p.queued < p.db.Batch/2 && p.bytes < p.budget/2 {
		return false // settles on their way make room
	}
	parked := false
	for _, d := range p.destinations {
		switch {
		case d.queued == 0:
		case p.blocked(d) || d.calls > 0 && (d.probing() || now.Sub(d.moved) >= stuckAfter):
			// One that is probed without a call out has its topics in the fetch,
			// which would bring the same rows back at once, and again.
			parked = true
			p.parkOne(d, now)
		case d.calls > 0:
			p.wakeBy(d.moved.Add(stuckAfter))
		}
	}
	return parked
}

func (p *pump) parkOne(d *destination, now time.Time) {
	if !d.dynamic {
		d.parked = d.calls > 0 // else a pause keeps its topics out already
		p.change++
		p.forgetReady(d)
		for _, q := range p.queues { // those with events in a call
			if q.dest == d {
				p.forgetWaiting(q)
			}
		}
		return
	}
	wait := max(d.until.Sub(now), retryDelay(d.failures+1))
	ready := d.ready
	d.ready = nil
	for _, q := range ready {
		q.ready = false
		if len(q.waiting) == 0 {
			continue
		}
		head := q.waiting[0]
		q.waiting = q.waiting[1:]
		p.unqueue(q, 1)
		p.hold(q, head, nil, Mark{
			Ref: head.row.Ref, Held: HeldRetry, After: wait,
			Attempts: head.row.Attempts, Error: safeError(d.cause),
		})
	}
}

// unpark ends the parking of a destination of which a call returned.
func (p *pump) unpark(d *destination, now time.Time) {
	if !d.parked {
		return
	}
	d.parked = false
	p.change++
	p.again = true
	p.sweepKeys(now)
}

// parkedRows counts what waits in memory for destinations that a Drain does not
// wait for.
func (p *pump) parkedRows() int {
	n := 0
	for _, d := range p.destinations {
		if p.blocked(d) && !(d.paused() && d.worthWaiting()) {
			n += d.queued
		}
	}
	return n
}

// keptDestinations is how many destinations that vary within topics are
// remembered while nothing is to be said of them.
const keptDestinations = 1000

// dropIdle forgets the destinations of which nothing is known that matters.
func (p *pump) dropIdle() {
	if len(p.destinations) < max(keptDestinations, p.keepDests) {
		return
	}
	for id, d := range p.destinations {
		if d.fixed || d.calls > 0 || d.queued > 0 || d.waiting || d.state != destOpen || len(d.suspects) > 0 {
			continue
		}
		delete(p.destinations, id)
		if o := p.outlets[id]; o == d.outlet && o.calls == 0 && !o.active {
			delete(p.outlets, id)
		}
	}
	p.keepDests = 2 * len(p.destinations)
}
