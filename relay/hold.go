package relay

import "slices"

// # Holding a key
//
// When an event of a key fails and must wait, its row is marked held in the
// store, and with it, as HeldBehind, the later rows of the key that are in
// memory: all in one settlement. From its commit on the key is closed for every
// relay, after a restart too; nothing has to be remembered. Rows that come
// later are marked by the fetch that meets them.
//
// Until the commit the key is closed here in memory (closedKey), so that no
// later row is sent in between. Nothing is ever un-marked: held rows leave only
// by being delivered, dead-lettered, or an operator's hand.

// hold marks head as m says and what waits behind it as held too.
func (p *pump) hold(q *queue, head *item, rest []*item, m Mark) {
	p.held.Add(1)
	if q.key.Key == "" { // holds nobody but itself
		p.mark(head, m, nil)
		return
	}
	ck := p.close(q.key)
	ck.pending++
	ck.wantRead = false // from the commit on the store knows when
	p.mark(head, m, func() { p.decided(ck) })
	if q.closed { // the rows behind it are held in the store already
		for _, it := range rest {
			p.release(it)
		}
		p.forgetWaiting(q)
		return
	}
	behind := slices.Concat(rest, q.waiting)
	p.unqueue(q, len(q.waiting))
	q.waiting = nil
	for _, it := range behind {
		p.mark(it, behindMark(it), nil)
	}
	p.dropQueue(q)
}

func behindMark(it *item) Mark {
	return Mark{Ref: it.row.Ref, Held: HeldBehind, Keep: true}
}

// bury moves head to the dead letters. What waits behind it may go on, but not
// before the move has committed: a crash in between would bring head back.
func (p *pump) bury(q *queue, head *item, rest []*item, attempts int, err error) {
	p.noteOut()
	p.out.dead = append(p.out.dead, Death{
		Ref: head.row.Ref, Attempts: attempts, Class: string(classOf(err)), Cause: safeError(err),
	})
	p.out.others = append(p.out.others, head)
	p.log.Warn("dead letter", "topic", q.key.Topic, "key", p.safeKey(q.key.Key), "event", head.row.EventID, "attempts", attempts, "error", safeError(err))
	if q.key.Key == "" {
		return
	}
	ck := p.close(q.key)
	ck.pending++
	ck.wantRead = ck.wantRead || q.closed
	p.out.then = append(p.out.then, func() { p.decided(ck) })
	for _, it := range rest {
		p.release(it)
	}
	p.forgetWaiting(q)
}

// markBehind marks a row that a fetch met in a closed key, so that it leaves the
// index of the hot rows.
func (p *pump) markBehind(it *item) {
	p.items[it.row.ID] = it
	ck := p.close(it.row.Key)
	ck.pending++
	p.mark(it, behindMark(it), func() { p.decided(ck) })
}

// closeOverfull closes the keys that have more rows in memory than a batch, so
// that one hot key does not fill the memory and starve the others: what is too
// much is marked as held behind the rest.
func (p *pump) closeOverfull() {
	for _, q := range p.overfull {
		keep := p.db.Batch
		if q.closed || len(q.waiting) <= keep {
			continue
		}
		ck := p.close(q.key)
		ck.pending++
		ck.wantRead = true
		for _, it := range q.waiting[:keep] {
			it.own(ck)
		}
		excess := q.waiting[keep:]
		q.waiting = q.waiting[:keep:keep]
		p.unqueue(q, len(excess))
		for _, it := range excess[1:] {
			p.mark(it, behindMark(it), nil)
		}
		p.mark(excess[0], behindMark(excess[0]), func() { p.decided(ck) })
	}
	p.overfull = p.overfull[:0]
}
