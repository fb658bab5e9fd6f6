package relay

import (
	"context"
	"errors"
	"slices"
	"time"
)

// # Lanes and leases
//
// Several relays share an outbox by lanes: 256 virtual partitions of the keys.
// Leases save duplicates. They are not what keeps the order: that rests on
// closed keys being read as closed.go says, and holds even if two relays
// believe that they own a lane.
//
//	absent ──Join──► standing by ──Claim──► serving ──Release──► standing by
//	   ▲                                       │
//	   └────────── ErrLeaseLost, Leave ────────┘
//
// What the database decides: who owns a lane, and whether a lease is still the
// one that a write names (its epoch). What the process decides: whether another
// relay is dead. Each relay raises its beat every fifth of the lease; one whose
// beat has not changed for the lease time by the watcher's own monotonic clock
// is dead. No wall clock is compared, so a stepped clock neither kills nor
// keeps anyone.
//
//	failure                     what happens
//	relay killed                its beat stands still, another evicts it within
//	                            the lease and claims its lanes; slow start
//	relay paused (SIGSTOP)      the same; when it wakes its lease has run out by
//	                            its own clock, so it sends nothing more, and its
//	                            next renewal says that the lease is lost
//	database away               nobody can renew: each stops sending when less
//	                            than a publish timeout of its lease is left; the
//	                            outage counts against nobody's beat
//	a call never returns        the relay stops renewing after three timeouts
//	two relays evict one        the row is locked and checked: one of them does
//	slow claim meets a renewal  both name epochs: the later one finds 0 rows
type member struct {
	leaser    Leaser
	fence     Fence
	joined    bool
	leaseJob  bool   // a statement about the lease is on its way
	term      uint64 // raised when a lease ends: results of an older one are dropped
	nextRenew time.Time
	goodUntil time.Time // by the monotonic clock
	serving   Lanes
	releasing Lanes // still ours in the table, no longer fetched
	members   []Member
	seen      map[string]*seen
	looked    time.Time // when the beats were last seen
	takeover  bool      // the next lanes claimed are a dead relay's
	leaseErr  error
	opening   bool // the store is being opened again
	nextIdle  time.Time
	yielding  yielding
}

// serves reports whether this relay may fetch at all.
func (p *pump) serves() bool {
	return !p.opening && (p.leaser == nil || p.serving != Lanes{})
}

// mayPublish reports whether what is sent now can be back before the lease runs
// out.
func (p *pump) mayPublish(now time.Time) bool {
	return p.leaser == nil || !now.Add(p.r.cfg.PublishTimeout).After(p.goodUntil)
}

func (p *pump) lanesToFetch() *Lanes {
	if p.leaser == nil {
		return nil
	}
	lanes := p.serving.Minus(p.releasing)
	if lanes == AllLanes {
		return nil
	}
	return &lanes
}

func (p *pump) ownsLane(lane uint8) bool {
	return p.leaser == nil || p.serving.Has(lane) && !p.releasing.Has(lane)
}

func (p *pump) ownsRow(r *Row) bool {
	return p.leaser == nil || p.serving == AllLanes && p.releasing == Lanes{} || p.ownsLane(LaneOf(r.Key.Key, r.EventID))
}

func (p *pump) ownsKey(key string) bool {
	return p.ownsRow(&Row{Key: Key{Key: key}})
}

func (p *pump) initMember() {
	p.member = member{seen: map[string]*seen{}, term: p.term + 1}
	if l, ok := p.store.(Leaser); ok {
		p.leaser = l
	}
}

func (p *pump) stepLease(now time.Time) {
	if p.leaser == nil || p.leaseJob || p.opening {
		return
	}
	if now.Before(p.nextRenew) {
		p.wakeBy(p.nextRenew)
		p.releaseIdle(now)
		return
	}
	if !p.joined {
		if !p.stopping {
			p.join(now)
		}
		return
	}
	if p.overdue(now) {
		p.nextRenew = now.Add(p.tick())
		p.log.Error("publish overdue, lease not renewed", "timeout", p.r.cfg.PublishTimeout)
		return
	}
	p.renew(now)
}

// tick is the time between two renewals.
func (p *pump) tick() time.Duration { return p.r.cfg.Lease / 5 }

// leaseWork runs a statement about the lease beside the loop.
func (p *pump) leaseWork(work func(context.Context) error, then func(error)) {
	p.leaseJob = true
	timeout, term := p.r.cfg.Lease/2, p.term
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(timeout)
		defer cancel()
		err := work(ctx)
		return func() {
			if p.term != term {
				return // about a lease that has ended meanwhile
			}
			p.leaseJob = false
			then(err)
		}
	})
}

func (p *pump) join(now time.Time) {
	m := Member{
		Fence: Fence{Instance: newInstance()},
		Host:  p.r.cfg.Host, Version: p.r.cfg.Version, Claim: p.db.Claim,
	}
	var fence Fence
	p.leaseWork(func(ctx context.Context) (err error) {
		fence, err = p.leaser.Join(ctx, m)
		return err
	}, func(err error) {
		p.noteLease(err)
		if err != nil {
			p.nextRenew = now.Add(p.tick() / 2)
			return
		}
		p.joined, p.fence = true, fence
		p.nextRenew = now // renew at once: it tells who else is here
	})
}

func (p *pump) renew(now time.Time) {
	p.nextRenew = now.Add(p.tick())
	var members []Member
	fence, unreachable := p.fence, p.noteUnreachable(now)
	p.leaseWork(func(ctx context.Context) (err error) {
		members, err = p.leaser.Renew(ctx, fence, unreachable)
		return err
	}, func(err error) {
		p.noteLease(err)
		switch {
		case errors.Is(err, ErrLeaseLost):
			p.lostLease()
		case err != nil:
			p.nextRenew = now.Add(p.tick() / 4)
		default:
			p.goodUntil = now.Add(p.r.cfg.Lease)
			p.renewed(members)
		}
	})
}

// renewed takes in who owns what, and does the next thing about it.
func (p *pump) renewed(members []Member) {
	p.members = members
	if len(members) == 0 {
		return
	}
	p.setServing(members[0].Lanes)
	if p.stopping {
		return
	}
	if dead, ok := p.findDead(members); ok {
		p.evict(dead)
		return
	}
	p.balance(members)
}

// setServing takes over what the table says.
func (p *pump) setServing(lanes Lanes) {
	gained, lost := lanes.Minus(p.serving), p.serving.Minus(lanes)
	p.serving = lanes
	if gained != (Lanes{}) {
		now := time.Now()
		if p.takeover {
			p.takeover = false
			p.slow.begin()
		}
		p.lanesMoved.Add(int64(gained.Len()))
		p.log.Info("lanes gained", "lanes", gained.Len(), "owned", lanes.Len())
		p.again = true
		p.change++
		p.sweepKeys(now)
	}
	if lost != (Lanes{}) {
		p.releasing = p.releasing.Minus(lost)
		p.forgetLanes(lost)
	}
}

// lostLease is called when another relay took this one as dead. What is on its
// way is still settled when it was accepted: that is a fact.
func (p *pump) lostLease() {
	if !p.joined {
		return
	}
	p.log.Warn("lease lost", "instance", p.fence.Instance)
	p.leaseLosses.Add(1)
	p.endTerm()
	p.loseLanes(AllLanes)
	p.out.dead = nil // the new owner decides about those events
	if p.failedOut != nil {
		p.failedOut.dead = nil
	}
	p.nextRenew = time.Now()
	p.change++
	p.forgetQueued()
}

// endTerm forgets everything about a lease that has ended.
func (p *pump) endTerm() {
	p.term++
	p.joined, p.fence, p.leaseJob = false, Fence{}, false
	p.serving, p.releasing, p.members = Lanes{}, Lanes{}, nil
	p.goodUntil = time.Time{}
}

// loseLanes drops the rows of some lanes from the reads on their way.
func (p *pump) loseLanes(lanes Lanes) {
	p.onView(func(v *view) { v.lost = v.lost.Union(lanes) })
	p.readLost = p.readLost.Union(lanes)
}

// leave gives everything up at the end of Run.
func (p *pump) leave(ctx context.Context) {
	if p.leaser == nil || !p.joined {
		return
	}
	within := p.r.cfg.Lease / 2
	if !p.stopBy.IsZero() {
		within = min(within, max(lastWords/2, time.Until(p.stopBy)))
	}
	leaveCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	if err := p.leaser.Leave(leaveCtx, p.fence); err != nil {
		p.log.Warn("lanes not released", "error", safeError(err))
	}
}

// forgetLanes takes what waits of some lanes out of memory.
func (p *pump) forgetLanes(lanes Lanes) {
	p.loseLanes(lanes)
	for _, d := range p.destinations {
		d.ready = slices.DeleteFunc(d.ready, func(q *queue) bool {
			if len(q.waiting) == 0 || !lanes.Has(LaneOf(q.key.Key, q.waiting[0].row.EventID)) {
				return false
			}
			q.ready = false
			p.forgetWaiting(q)
			return true
		})
	}
	for _, q := range p.queues {
		if lanes.Has(LaneOf(q.key.Key, [16]byte{})) {
			p.forgetWaiting(q)
		}
	}
}
