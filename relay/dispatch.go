package relay

import (
	"slices"
	"time"
)

// # Dispatching
//
// Rows wait in the queue of their key; queues with something to send wait in
// line at their destination; destinations take turns. A call takes queues from
// the line and, while it is on its way, no other call holds one of their keys.
// That alone keeps the order of a key: one call at a time, and slice order in
// it.
//
// A call starts with one event and doubles as long as calls succeed, up to what
// the measured rate sends in half the publish timeout; a failure brings it back
// to one. So a call to a slow destination does not run into its timeout with
// most of its events unsent, and a destination that comes back is not flooded.
type dispatcher struct {
	destinations map[string]*destination
	outlets      map[string]*outlet
	active       []*outlet // those with a destination that has something to send
	calls        int
	failSeq      uint64
	sent         map[*call]time.Time
	slow         slowStart
	pausedDests  map[*destination]struct{}
	keepDests    int // their number at which idle ones are dropped
}

// outlet is what a call is made to: one destination, or all destinations of a
// broker that mixes them.
type outlet struct {
	broker  Broker
	waiting []*destination // with a line, in turn
	active  bool
	calls   int
}

// callsPerOutlet keeps a call on its way while the next is being made.
const callsPerOutlet = 2

// maxCalls bounds the calls on their way of one pump.
const maxCalls = 256

// call is one Publish on its way.
type call struct {
	outlet *outlet
	broker Broker
	items  []*item
	began  time.Time
	seq    uint64 // failSeq at its start: what it proves about failures before it
	dests  []*destination
	turns  int  // events of the key that has the most
	solo   bool // holds one suspect and nothing else
	term   uint64
	noting bool // its note (slowstart.go) is on its way
}

func (d *dispatcher) reset() {
	// Destinations outlive a reset: that one is down is still true.
	for _, dest := range d.destinations {
		dest.ready, dest.waiting, dest.queued, dest.parked = nil, false, 0, false
	}
	for _, o := range d.outlets {
		o.waiting, o.active = nil, false
	}
	d.active = nil
	if d.outlets == nil {
		d.destinations = map[string]*destination{}
		d.outlets = map[string]*outlet{}
		d.sent = map[*call]time.Time{}
		d.pausedDests = map[*destination]struct{}{}
	}
}

// activate puts a destination in turn, if it has a line and may be sent to.
func (p *pump) activate(d *destination) {
	if d.waiting || len(d.ready) == 0 || p.blocked(d) {
		return
	}
	d.waiting = true
	d.outlet.waiting = append(d.outlet.waiting, d)
	if !d.outlet.active {
		d.outlet.active = true
		p.active = append(p.active, d.outlet)
	}
}

func (p *pump) stepDispatch(now time.Time) {
	p.reopen(now)
	if p.stopping || !p.serves() {
		return
	}
	if !p.mayPublish(now) {
		return // stepLease wakes the loop when that changes
	}
	for i := 0; i < len(p.active); i++ {
		o := p.active[i]
		for o.calls < callsPerOutlet && p.calls < maxCalls && p.admitsCall() {
			c := p.form(o)
			if c == nil {
				break
			}
			p.start(c)
		}
		if len(o.waiting) == 0 {
			o.active = false
			p.active = slices.Delete(p.active, i, i+1)
			i--
		}
	}
	if len(p.active) > 1 { // another outlet begins the next time
		p.active = append(p.active[1:], p.active[0])
	}
}

// form makes a call of what waits at an outlet, or returns nil.
func (p *pump) form(o *outlet) *call {
	c := &call{outlet: o, broker: o.broker, seq: p.failSeq, term: p.term}
	limit := p.slow.limit(p.db.Batch)
	for range len(o.waiting) {
		d := o.waiting[0]
		o.waiting = o.waiting[1:]
		d.waiting = false
		if !p.blocked(d) {
			p.takeFrom(d, c, min(limit-len(c.items), d.callSize()))
		}
		p.activate(d) // behind the others
		if c.solo || len(c.items) >= limit || len(c.items) > 0 && !mixes(o.broker) {
			break
		}
	}
	if len(c.items) == 0 {
		return nil
	}
	return c
}

// takeFrom adds to a call what a destination may send now: up to n events, a
// share from each key, so that a key with many events does not hold the call
// for the time of all of them.
func (p *pump) takeFrom(d *destination, c *call, n int) {
	if d.calls > 0 && (d.probing() || d.size < callsPerOutlet) { // being probed, or starting
		return
	}
	share := min(max(n/max(len(d.ready), 1), 1), maxShare)
	before := len(c.items)
	for at := 0; len(c.items)-before < n && at < len(d.ready); {
		if d.probing() {
			if at = d.probe(); d.suspected(at) && (len(c.items) > 0 || d.solos > 0) {
				break // it goes alone, when it is this destination's turn again
			}
		}
		if !d.suspected(at) {
			p.takeQueue(d, at, c, min(share, n-(len(c.items)-before)))
			continue
		}
		if len(c.items) > 0 || d.solos > 0 {
			// One at a time, so that suspects that take the whole publish
			// timeout each leave a call to the others.
			at++
			continue
		}
		p.takeQueue(d, at, c, 1)
		c.solo = true
		d.solos++
		break
	}
	if len(c.items) > before {
		if d.calls == 0 {
			d.moved = time.Now()
		}
		d.calls++
		c.dests = append(c.dests, d)
	}
	if cap(d.ready) > 64 && len(d.ready) == 0 {
		d.ready = nil // slicing forward keeps the old array alive
	}
}

const maxShare = 512

// suspected reports whether what is next of a queue in line is a suspect.
func (d *destination) suspected(at int) bool {
	if len(d.suspects) == 0 || len(d.ready[at].waiting) == 0 {
		return false
	}
	return d.suspects[d.ready[at].waiting[0].suspectKey()] != nil
}

// probe chooses from the line whom to probe with: first other keys than those
// that failed, the youngest first, since what cannot be sent grows old; the
// last probe of a round is a suspect, the oldest.
func (d *destination) probe() int {
	last := len(d.ready) - 1
	if d.probes <= 1 {
		for at := range d.ready {
			if d.suspected(at) {
				return at
			}
		}
		return last
	}
	for at := last; at >= 0; at-- {
		if !d.suspected(at) {
			return at
		}
	}
	return last
}

func (p *pump) takeQueue(d *destination, at int, c *call, n int) {
	q := d.ready[at]
	if at == 0 {
		d.ready = d.ready[1:]
	} else {
		d.ready = slices.Delete(d.ready, at, at+1)
	}
	q.ready = false
	if q.key.Key != "" { // events without a key wait for no other
		n = min(n, d.callTurns())
	}
	n = d.run(q, n)
	if q.key.Key != "" {
		c.turns = max(c.turns, n)
	}
	c.items = append(c.items, q.waiting[:n]...)
	q.waiting = q.waiting[n:]
	q.sending += n
	p.unqueue(q, n)
}

// run is how many events at the head of a queue go to this destination, at most
// n: the events of one key may go to several, one after the other.
func (d *destination) run(q *queue, n int) int {
	n = min(n, len(q.waiting))
	if !d.dynamic {
		return n
	}
	for i, it := range q.waiting[:n] {
		if it.dest != d {
			return i
		}
	}
	return n
}

func mixes(b Broker) bool {
	m, ok := b.(Mixer)
	return ok && m.MixesDestinations()
}
