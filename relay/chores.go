package relay

import (
	"context"
	"time"
)

// chores are what a pump does beside moving events, one at a time: giving
// scheduled rows their place when they fall due, and housekeeping.
type chores struct {
	choreRunning bool
	promoteNow   bool
	nextKeep     time.Time
}

const (
	promoteRows = 1000
	keepEvery   = 10 * time.Second
	choreTime   = 30 * time.Second
)

func (p *pump) stepChores(now time.Time) {
	p.extendArming(now)
	p.closeParked()
	if p.choreRunning || p.stopping || !p.serves() {
		return
	}
	switch {
	case p.promoteNow:
		p.promoteNow = false
		p.chore(func(ctx context.Context) (func(), error) {
			n, err := p.store.Promote(ctx, promoteRows)
			return func() {
				p.change++
				p.again = true
				p.promoteNow = n == promoteRows
			}, err
		})
	case !now.Before(p.nextKeep):
		p.nextKeep = now.Add(jitter(keepEvery))
		if !p.keeps() {
			return
		}
		p.chore(func(ctx context.Context) (func(), error) {
			kept, err := p.store.Keep(ctx)
			return func() {
				p.kept.Add(kept.Removed)
				if kept.More {
					p.nextKeep = time.Now().Add(100 * time.Millisecond)
				}
			}, err
		})
	default:
		p.wakeBy(p.nextKeep)
	}
}

// keeps reports whether this relay is the one that keeps house: the owner of
// lane 0, so that there is one cleaner at a time.
func (p *pump) keeps() bool { return p.leaser == nil || p.ownsLane(0) }

func (p *pump) chore(work func(context.Context) (func(), error)) {
	p.choreRunning = true
	history := p.history
	p.spawn(func() func() {
		ctx, cancel := withTimeout(choreTime)
		defer cancel()
		then, err := work(ctx)
		return func() {
			if p.history != history {
				return
			}
			p.choreRunning = false
			p.noteDatabase(err)
			if err == nil {
				then()
			}
		}
	})
}

// closeParked closes the keys that wait for paused destinations when they fill
// the memory. Events of a topic that has one destination never get here: the
// fetch leaves the topic out. Where the destination varies within a topic it
// cannot, so those events wait in memory, and when they are too many, held in
// the store.
func (p *pump) closeParked() {
	if p.stopping || p.queued < p.db.Batch || len(p.active) > 0 || p.calls > 0 {
		return
	}
	for d := range p.pausedDests {
		if !d.dynamic {
			continue
		}
		ready := d.ready
		d.ready = nil
		for _, q := range ready {
			q.ready = false
			if len(q.waiting) == 0 {
				continue
			}
			head := q.waiting[0]
			q.waiting = q.waiting[1:]
			p.queued--
			p.hold(q, head, nil, Mark{
				Ref: head.row.Ref, Held: HeldRetry, After: max(time.Until(d.until), firstRetry),
				Attempts: head.row.Attempts, Error: safeError(d.cause),
			})
		}
	}
}
