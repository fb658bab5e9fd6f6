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
	case p.askFloors(now):
	default:
		p.wakeBy(p.nextKeep)
		if p.floor.slow {
			p.wakeBy(p.floor.nextAsk)
		}
	}
}

// keeps reports whether this relay is the one that keeps house: the owner of
// lane 0, so that there is one cleaner at a time.
func (p *pump) keeps() bool { return p.leaser == nil || p.ownsLane(0) }

func (p *pump) chore(work func(context.Context) (func(), error)) {
	p.choreRunning = true
	history := p.history
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(choreTime)
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
