package relay

import "slices"

// item is a row in memory.
type item struct {
	row    Row
	queue  *queue
	dest   *destination
	bytes  int64
	closed *closedKey // whose rows it counts among
	alone  bool       // sent alone after a crash, with a note in its row
}

// queue holds the rows of one key that wait to be sent, in order. A key is in
// at most one call at a time: while sending is above 0 its queue is not ready.
// A row with an empty key has a queue of its own, which is in no map.
type queue struct {
	key     Key
	dest    *destination
	topic   *topic
	waiting []*item
	sending int
	ready   bool // in dest.ready
	closed  bool // rows of a closed key: they are held in the store already
}

// memory is what the pump holds of the outbox.
type memory struct {
	items  map[RowID]*item
	queues map[Key]*queue
	bytes  int64
	queued int // items that wait in a queue
	topics map[string]*topic
}

func (m *memory) reset() {
	m.items = map[RowID]*item{}
	m.queues = map[Key]*queue{}
	m.topics = map[string]*topic{}
	m.bytes, m.queued = 0, 0
}

// rowOverhead is what a row costs in memory beside its payload.
const rowOverhead = 512

func rowBytes(r *Row) int64 {
	n := rowOverhead + len(r.Payload) + len(r.Key.Key) + len(r.Topic)
	for k, v := range r.Headers {
		n += len(k) + len(v) + 64
	}
	return int64(n)
}

// enqueue adds a fetched row behind the others of its key.
func (p *pump) enqueue(it *item, t *topic, closed bool) {
	it.bytes = rowBytes(&it.row)
	p.items[it.row.ID] = it
	p.bytes += it.bytes
	it.dest = p.destinationOf(t, &it.row)
	q := p.queueOf(it, t)
	p.unqueue(q, -1)
	q.closed = q.closed || closed
	it.queue = q
	q.waiting = append(q.waiting, it)
	if len(q.waiting) == p.db.Batch+1 {
		p.overfull = append(p.overfull, q)
	}
	p.makeReady(q)
}

func (p *pump) queueOf(it *item, t *topic) *queue {
	key := it.row.Key
	if key.Key == "" {
		return &queue{key: key, topic: t, dest: it.dest}
	}
	q := p.queues[key]
	if q == nil {
		q = &queue{key: key, topic: t, dest: it.dest}
		p.queues[key] = q
	}
	return q
}

// unqueue counts n rows of a queue less among those that wait.
func (p *pump) unqueue(q *queue, n int) {
	p.queued -= n
	q.dest.queued -= n
}

// makeReady puts a queue in line for the next call, if it may be.
func (p *pump) makeReady(q *queue) {
	if q.ready || q.sending > 0 || len(q.waiting) == 0 {
		return
	}
	if p.topicPaused(q.topic) { // meanwhile
		p.forgetWaiting(q)
		return
	}
	if d := q.waiting[0].dest; d != q.dest {
		q.dest.queued -= len(q.waiting)
		d.queued += len(q.waiting)
		q.dest = d
	}
	q.ready = true
	q.dest.ready = append(q.dest.ready, q)
	p.activate(q.dest)
}

// release takes an item out of memory: it is settled or forgotten.
func (p *pump) release(it *item) {
	delete(p.items, it.row.ID)
	p.bytes -= it.bytes
	if ck := it.closed; ck != nil {
		it.closed = nil
		ck.items--
		p.keyIdle(ck)
	}
}

// dropQueue removes a queue that has nothing left.
func (p *pump) dropQueue(q *queue) {
	if q.sending == 0 && len(q.waiting) == 0 && q.key.Key != "" && p.queues[q.key] == q {
		delete(p.queues, q.key)
	}
}

// forgetWaiting takes what waits of a key out of memory without writing
// anything: the table still has it. Rows of the key that a fetch on its way
// brings must be dropped with it, or they would pass the forgotten ones.
func (p *pump) forgetWaiting(q *queue) {
	for _, it := range q.waiting {
		p.release(it)
	}
	p.unqueue(q, len(q.waiting))
	q.waiting = nil
	p.touch(q.key)
	p.dropQueue(q)
}

// forgetQueued forgets all that waits, of all keys.
func (p *pump) forgetQueued() {
	for _, d := range p.destinations {
		p.forgetReady(d)
	}
	for _, q := range p.queues {
		p.forgetWaiting(q)
	}
}

// forgetReady forgets what waits for one destination.
func (p *pump) forgetReady(d *destination) {
	ready := d.ready
	d.ready = nil
	for _, q := range ready {
		q.ready = false
		p.forgetWaiting(q)
	}
}

// forgetPaused forgets what waits of paused topics for a destination.
func (p *pump) forgetPaused(d *destination) {
	d.ready = slices.DeleteFunc(d.ready, func(q *queue) bool {
		if !p.topicPaused(q.topic) {
			return false
		}
		q.ready = false
		p.forgetWaiting(q)
		return true
	})
}
