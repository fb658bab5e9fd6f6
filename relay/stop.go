package relay

import (
	"context"
	"time"
)

// # Stopping
//
//	stop ──► drain: calls return, outcomes are settled ──► end ──► leave
//	              at most DrainTimeout                    at most a second
//
// The end of Run's context cuts neither a call nor a statement, or each deploy
// would bring duplicates. When the drain time is over the calls are cut; what
// they still report is settled with the last words, and whatever does not return
// even then is left to itself: a stop is never worse than a crash, and never
// much longer than it was told to be.

// Statements that nobody needs any more, a fetch or a renewal, may end too: they
// are short, and one that is cut is cancelled at the server. PgBouncer 1.18 dies,
// with all its clients, of a cancel request whose sender is gone before it was
// passed on, and a stopping process is gone soon.

// lastWords is how long after the drain an outcome may take to be settled.
const lastWords = 500 * time.Millisecond

// stop begins the drain: nothing new is fetched or sent, what waits in memory
// is forgotten, what is on its way may return and be settled.
func (p *pump) stop() {
	if p.stopping {
		return
	}
	p.stopping = true
	p.stopBy = time.Now().Add(p.r.cfg.DrainTimeout)
	p.forgetQueued()
}

// finished reports whether the loop may end.
func (p *pump) finished() bool {
	switch {
	case p.fatal != nil:
		return true
	case p.stopping:
		return !time.Now().Before(p.stopBy) || (p.calls == 0 && p.settled())
	case p.once:
		return p.drained()
	}
	return false
}

// drained reports whether a Drain has nothing left to do: nothing in memory or
// on its way, and the last fetch, sent after the last change, found nothing.
func (p *pump) drained() bool {
	if p.standsBy() {
		p.leftReason = p.leftovers()
		return true
	}
	if !p.serves() || p.calls > 0 || !p.settled() || len(p.items) > p.parkedRows() || p.keysBusy() || p.view != nil || !p.emptyFetch || p.choreRunning {
		return false
	}
	if p.probeWithin() { // a destination's first, short pauses are waited for
		return false
	}
	p.leftReason = p.leftovers()
	return true
}

// standsBy reports whether a Drain got no lane although it waited for as long as
// a dead relay's lease may last.
func (p *pump) standsBy() bool {
	return p.joined && !p.serves() && !p.leaseJob && len(p.members) > 1 && time.Since(p.started) > 2*p.r.cfg.Lease
}

// end cuts what is still on its way after the loop, and settles what that
// reports.
func (p *pump) end() {
	p.stopping = true
	p.cutCalls()
	by := time.NewTimer(lastWords)
	defer by.Stop()
	over := false
	for p.running > 0 || !over && !p.settled() {
		if !over {
			now := time.Now()
			p.wakeAt = now.Add(time.Hour)
			p.stepSettle(now)
		}
		again := time.NewTimer(max(0, time.Until(p.wakeAt)))
		select {
		case then := <-p.done:
			p.finish(then)
		case <-again.C:
		case <-by.C:
			if over {
				p.log.Warn("stopped with calls on their way", "calls", p.calls)
				close(p.abandoned)
				again.Stop()
				return
			}
			over = true
			p.wakeAt = time.Now().Add(time.Hour)
			p.cutWork()
			by.Reset(lastWords / 2)
		}
		again.Stop()
	}
}

// withTimeout is the context of a statement: not cut by the end of Run, so
// that what was sent is also settled.
func (p *pump) withTimeout(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(p.workCtx, d)
}
