package relay

import (
	"context"
	"errors"
	"time"
)

// # Watching the others
//
// At each renewal a relay sees the beats of all others. One whose beat has stood
// still for the lease time by the watcher's own monotonic clock is dead: its
// lease is ended, its lanes are free, and who takes some of them starts slowly
// (slowstart.go), since what it had on its way may have killed it.
//
// Time in which the watcher could not look does not count.

// seen is when another relay's beat was first seen as it is.
type seen struct {
	epoch, beat int64
	since       time.Time
	lanes       bool // it owned some
}

// findDead returns a relay whose beat has stood still for the lease.
func (p *pump) findDead(members []Member) (Member, bool) {
	now := time.Now()
	p.notLooking(now)
	here := map[string]bool{}
	for _, m := range members[1:] {
		here[m.Instance] = true
		s := p.seen[m.Instance]
		if s == nil || s.epoch != m.Epoch || s.beat != m.Beat {
			p.seen[m.Instance] = &seen{m.Epoch, m.Beat, now, m.Lanes != Lanes{}}
			continue
		}
		if now.Sub(s.since) >= p.r.cfg.Lease {
			return m, true
		}
		p.nextRenew = minTime(p.nextRenew, s.since.Add(p.r.cfg.Lease))
	}
	for instance, s := range p.seen {
		if here[instance] {
			continue
		}
		delete(p.seen, instance)
		// One that leaves beats until it does; another relay has evicted this one,
		// and what killed it may be in the lanes that are now free for all.
		p.takeover = p.takeover || s.lanes && now.Sub(s.since) > p.r.cfg.Lease/2
	}
	return Member{}, false
}

// notLooking leaves out of the time for which the beats stood still that in which
// this relay could not see them. Most often the database was away, and then
// nobody could renew: the first to come back would take all the others as dead,
// and send again what they had sent and not settled.
func (p *pump) notLooking(now time.Time) {
	blind := now.Sub(p.looked) - 2*p.tick() // two looks lie a tick apart, and a little
	if !p.looked.IsZero() && blind > 0 {
		for _, s := range p.seen {
			s.since = s.since.Add(blind)
		}
	}
	p.looked = now
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func (p *pump) evict(dead Member) {
	var done bool
	fence := p.fence
	p.leaseWork(func(ctx context.Context) (err error) {
		done, err = p.leaser.Evict(ctx, fence, dead)
		return err
	}, func(err error) {
		p.noteLease(err)
		if errors.Is(err, ErrLeaseLost) {
			p.lostLease()
			return
		}
		if done {
			p.log.Warn("relay taken as dead", "instance", dead.Instance, "host", dead.Host, "lanes", dead.Lanes.Len())
			p.takeover = p.takeover || dead.Lanes != Lanes{}
		}
		if err == nil {
			delete(p.seen, dead.Instance)
			p.nextRenew = time.Now() // its lanes are free
		}
	})
}
