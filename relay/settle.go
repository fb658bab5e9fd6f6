package relay

import (
	"errors"
	"time"
)

// # Settling
//
// Outcomes are collected and written in one statement at a time; while it is on
// its way the next batch collects itself. A batch that fails is written again,
// as it was, for as long as it takes: everything in it is a fact or a value, so
// repeating it changes nothing.
//
// A row leaves memory only after its outcome has committed, so that no fetch
// can bring it again meanwhile.
type settler struct {
	out       batch
	failedOut *batch // to be written again
	settling  bool
	firstOut  time.Time
	retryOut  time.Time
	outErrs   backoff
	history   uint64 // raised by each reset: results of an older history are dropped
}

// batch is one settlement with the items it is about.
type batch struct {
	delivered []*item
	marks     []Mark
	dead      []Death
	others    []*item // the items of marks and dead
	then      []func()
}

func (b *batch) len() int { return len(b.delivered) + len(b.marks) + len(b.dead) }

const (
	// settleLinger lets outcomes gather: a commit costs more than a row.
	settleLinger  = 2 * time.Millisecond
	longestLinger = 20 * time.Millisecond
	settleRows    = 4000
	settleSoon    = 500
	// settleTimeout is long: while a settle is on its way nothing is lost, and
	// cutting it off under load would only repeat the work.
	settleTimeout = 30 * time.Second
)

func (s *settler) reset() {
	history := s.history + 1
	*s = settler{history: history, outErrs: backoff{base: 50 * time.Millisecond, cap: 2 * time.Second}}
}

// settled reports whether nothing waits for being written.
func (p *pump) settled() bool { return !p.settling && p.failedOut == nil && p.out.len() == 0 }

// deliver notes that an item was accepted.
func (p *pump) deliver(it *item) {
	p.noteOut()
	p.out.delivered = append(p.out.delivered, it)
}

// mark notes a change of a row that stays.
func (p *pump) mark(it *item, m Mark, then func()) {
	p.noteOut()
	m.Error = cleanText(m.Error, maxErrorBytes)
	p.out.marks = append(p.out.marks, m)
	if it != nil {
		p.out.others = append(p.out.others, it)
	}
	if then != nil {
		p.out.then = append(p.out.then, then)
	}
}

func (p *pump) noteOut() {
	if p.out.len() == 0 {
		p.firstOut = time.Now()
	}
}

func (p *pump) stepSettle(now time.Time) {
	if p.settling {
		return
	}
	if p.failedOut != nil {
		if now.Before(p.retryOut) {
			p.wakeBy(p.retryOut)
			return
		}
		b := p.failedOut
		p.failedOut = nil
		p.write(b, now)
		return
	}
	if p.out.len() == 0 {
		return
	}
	// Linger only while something may still join: with no call on its way
	// nothing will.
	if due := p.firstOut.Add(p.linger(now)); p.out.len() < settleSoon && (p.calls > 0 || p.view != nil) && now.Before(due) {
		p.wakeBy(due)
		return
	}
	b := p.cutBatch()
	p.write(b, now)
}

// linger is how long outcomes gather: the faster they come, the longer, so that
// settles stay few and the processor is left to the writers.
func (p *pump) linger(now time.Time) time.Duration {
	return min(max(settleLinger, time.Duration(p.lastSecond(now))*5*time.Microsecond), longestLinger)
}

// cutBatch takes at most settleRows delivered rows, and all marks: a key's
// marks must not come apart from what was decided with them.
func (p *pump) cutBatch() *batch {
	b := p.out
	p.out = batch{}
	if len(b.delivered) > settleRows {
		p.out.delivered = append(p.out.delivered, b.delivered[settleRows:]...)
		b.delivered = b.delivered[:settleRows]
		p.firstOut = time.Now()
	}
	return &b
}

func (p *pump) write(b *batch, now time.Time) {
	p.settling = true
	if p.leaser != nil && !p.joined {
		b.dead = nil // without a fence nobody could refuse them
	}
	s := Settlement{Fence: p.fence, Marks: lastMarks(b.marks), Dead: b.dead, Delivered: make([]Ref, len(b.delivered))}
	for i, it := range b.delivered {
		s.Delivered[i] = it.row.Ref
	}
	history := p.history
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(settleTimeout)
		defer cancel()
		res, err := p.store.Settle(ctx, s)
		return func() {
			if p.history != history {
				return
			}
			p.settling = false
			p.noteDatabase(err)
			p.observeSettle(time.Since(now), b, res, err)
			if err != nil {
				p.settleFailed(b, err)
				return
			}
			p.outErrs.reset()
			p.noteHistory(res.History)
			p.committed(b)
		}
	})
}

// lastMarks leaves one mark of each row, the last: a statement that names a row
// twice applies either.
func lastMarks(marks []Mark) []Mark {
	if len(marks) < 2 {
		return marks
	}
	at := make(map[RowID]int, len(marks))
	out := marks[:0:0]
	for _, m := range marks {
		if i, ok := at[m.ID]; ok {
			out[i] = m
			continue
		}
		at[m.ID] = len(out)
		out = append(out, m)
	}
	return out
}

// settleFailed keeps a batch for another try. Dead letters of a lease that is
// lost are dropped: the new owner decides about those events.
func (p *pump) settleFailed(b *batch, err error) {
	p.failedOut = b
	if errors.Is(err, ErrLeaseLost) {
		b.dead = nil
		p.lostLease()
	}
	p.retryOut = time.Now().Add(p.outErrs.next())
}

// committed releases what a batch was about and runs what waited for it.
func (p *pump) committed(b *batch) {
	for _, it := range b.delivered {
		p.release(it)
		p.noteSettled(it.row.ID)
	}
	for _, it := range b.others {
		p.release(it)
		p.noteSettled(it.row.ID)
	}
	p.change++
	for _, then := range b.then {
		then()
	}
	p.slow.settled(len(b.delivered), p.db.Batch)
}
