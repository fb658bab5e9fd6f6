package relay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// # Balancing
//
// Every relay computes the same share for each from the members that it sees,
// so no one has to lead. A relay with more than its share gives lanes up, one
// by one as they fall idle, and one with less claims what is free:
//
//	serving ──► releasing: no longer fetched, what waits is forgotten,
//	            calls return, settles commit ──► Release
//
// The outbox is never drained for it. Where all keys share one lane, one relay
// has everything and the others stand by. A relay that cannot reach a destination
// which another one reaches has no share (unreachable.go).

// balance claims what is free up to this relay's share, or begins to release
// what is above it.
func (p *pump) balance(members []Member) {
	free := AllLanes
	for _, m := range members {
		free = free.Minus(m.Lanes)
	}
	owned := p.serving.Len()
	share := p.share(members)
	above := owned - p.releasing.Len() - share
	allowed := p.mayGiveUp(max(above, 0), members, time.Now())
	switch {
	case !p.server.Lanes:
		if free == AllLanes && share > 0 {
			p.claim(AllLanes)
		} else if share == 0 && above > 0 && allowed > 0 && p.yielding.on {
			p.giveUp(owned)
		}
	case owned < share && free != Lanes{}:
		p.claim(firstLanes(free, share-owned))
	case above > 0 && allowed > 0:
		p.giveUp(allowed)
	}
}

// share is the number of lanes that this relay should own.
func (p *pump) share(members []Member) int {
	firm, scouts := p.candidates(members)
	active := slices.Clone(firm)
	// Those that own lanes stay; ties go by name, so that all see the same order.
	slices.SortFunc(active, func(a, b Member) int {
		return cmp.Or(cmp.Compare(boolInt(b.Lanes != Lanes{}), boolInt(a.Lanes != Lanes{})), cmp.Compare(a.Instance, b.Instance))
	})
	if n := p.r.cfg.Active; n > 0 && len(active) > n {
		active = active[:n]
	}
	slices.SortFunc(active, func(a, b Member) int { return cmp.Compare(a.Instance, b.Instance) })
	i := slices.IndexFunc(active, func(m Member) bool { return m.Instance == p.fence.Instance })
	if i < 0 {
		if p.server.Lanes && p.r.cfg.Active == 0 && slices.ContainsFunc(scouts, func(m Member) bool { return m.Instance == p.fence.Instance }) {
			return 1
		}
		return 0
	}
	lanes := 256
	if p.server.Lanes && p.r.cfg.Active == 0 {
		lanes -= len(scouts)
	}
	share := lanes / len(active)
	if i < lanes%len(active) {
		share++
	}
	return share
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func firstLanes(l Lanes, n int) Lanes {
	var out Lanes
	for _, lane := range l.List() {
		if n == 0 {
			break
		}
		out.Add(lane)
		n--
	}
	return out
}

func (p *pump) claim(lanes Lanes) {
	var got Lanes
	fence, single := p.fence, !p.server.Lanes
	p.leaseWork(func(ctx context.Context) (err error) {
		got, err = p.leaser.Claim(ctx, fence, lanes)
		if err == nil && single && got != AllLanes && got != (Lanes{}) {
			// Two relays raced for the one lane: give back what was got.
			err = p.leaser.Release(ctx, fence, got)
			got = Lanes{}
		}
		return err
	}, func(err error) {
		p.noteLease(err)
		if errors.Is(err, ErrLeaseLost) {
			p.lostLease()
			return
		}
		if err != nil || got == (Lanes{}) {
			return
		}
		p.setServing(p.serving.Union(got))
	})
}

// giveUp begins to release n lanes.
func (p *pump) giveUp(n int) {
	lanes := firstLanes(p.serving.Minus(p.releasing), n)
	p.releasing = p.releasing.Union(lanes)
	p.nextIdle = time.Time{}
	p.forgetLanes(lanes)
}

const idleCheckEvery = 5 * time.Millisecond

// releaseIdle releases the lanes of which nothing is in memory any more. A
// fetch on its way brings none of their rows: take drops them.
func (p *pump) releaseIdle(now time.Time) {
	if p.releasing == (Lanes{}) {
		return
	}
	if now.Before(p.nextIdle) {
		p.wakeBy(p.nextIdle)
		return
	}
	p.nextIdle = now.Add(idleCheckEvery)
	idle := p.releasing
	for _, it := range p.items {
		idle.Remove(LaneOf(it.row.Key.Key, it.row.EventID))
	}
	if idle == (Lanes{}) {
		p.wakeBy(p.nextIdle)
		return
	}
	fence := p.fence
	p.leaseWork(func(ctx context.Context) error {
		return p.leaser.Release(ctx, fence, idle)
	}, func(err error) {
		p.noteLease(err)
		if errors.Is(err, ErrLeaseLost) {
			p.lostLease()
			return
		}
		if err != nil {
			return // still ours: tried again
		}
		p.log.Info("lanes released", "lanes", idle.Len())
		p.serving, p.releasing = p.serving.Minus(idle), p.releasing.Minus(idle)
	})
}
