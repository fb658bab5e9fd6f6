package relay

import (
	"slices"
	"strings"
	"time"
)

// # Giving lanes up to a relay that reaches more
//
// A destination can be down for one relay alone: a broken route, an expired
// certificate, a firewall. Its events would wait there although a peer could
// send them. So each relay says with its renewals which destinations it has not
// reached for longer than a lease, and one that names a destination which a live
// peer does not name has no share of the lanes while that holds: it yields.
//
//	 sharing ──────── a live peer reaches what I do not ───────► yielding
//	    ▲                                                           │
//	    ├───────── no peer does any more, or I reach it again ◄─────┤
//	    │                                                           │
//	    └── nothing failed ── scouting ◄── no try for six leases ◄──┘
//	                             │
//	                             └── failed: yielding, for twice as long
//
// A peer that never tried a destination does not name it either. That is found
// out cheaply: for two leases a relay gives up one lane at a renewal, and a peer
// that fails with those names the destination itself within a lease. Only then
// does the number double. A relay that stopped yielding does not begin again for
// two leases.
//
// A relay without lanes tries nothing, so it cannot know that its way is open
// again. After a while it says so (a ? before the name): it scouts. The others
// leave it one lane. An event that fails there ends the scouting at once, and the
// next one comes twice as late; when nothing has failed for a while, it takes its
// share. Where there is only one lane, a scout counts as one that reaches the
// destination, and takes the lane if its owner does not.
//
// Every relay computes the shares of all from the same rows, so nobody leads. If
// all would yield, nobody does: a broker that is down for everybody moves
// nothing. What a relay believes wrongly for the time of a renewal moves a lane
// too many or too few, and never breaks the order, which does not rest on leases.

const (
	// trialLeases is how long lanes are given up one by one, and how long a relay
	// waits before it yields again.
	trialLeases = 2
	// scoutLeases is how long a destination is not tried before its relay scouts,
	// the first time; and for how long it scouts.
	scoutLeases = 6
	// scoutDoublings bounds the doubling of that.
	scoutDoublings = 5
	// maxUnreachable bounds what a relay names. A longer list would be cut, and a
	// peer's missing name would be taken for a destination that it reaches; so a
	// full list counts as naming everything.
	maxUnreachable = 64
	scoutMark      = "?"
)

// yielding is what a relay remembers of its own giving up.
type yielding struct {
	on    bool
	since time.Time // when it began, or ended
	step  int       // lanes that go at the next renewal, after the trial
}

// scouting is what is known of a destination that is down for long.
type scouting struct {
	failed time.Time // the last failure
	on     bool
	since  time.Time
	times  int
	cured  bool // nothing failed while it scouted: believed until the next failure
}

// noteUnreachable returns what the next renewal says.
func (p *pump) noteUnreachable(now time.Time) []string {
	var names []string
	lease := p.r.cfg.Lease
	for _, d := range p.destinations {
		s := &d.scout
		if d.state == destOpen {
			*s = scouting{}
			continue
		}
		if now.Sub(d.since) <= lease || s.cured {
			continue
		}
		switch {
		case s.on && s.failed.After(s.since):
			s.on = false
			s.times = min(s.times+1, scoutDoublings)
		case s.on && now.Sub(s.since) > scoutLeases*lease:
			s.on, s.cured = false, true
			s.times = min(s.times+1, scoutDoublings)
			continue
		case !s.on && now.Sub(latest(s.failed, d.until)) > scoutLeases*lease<<s.times: // in a pause it is not tried either
			s.on, s.since = true, now
		}
		name := HashKey(d.id)
		if s.on {
			name = scoutMark + name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > maxUnreachable {
		names = names[:maxUnreachable]
	}
	return names
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// names reports whether a relay said that it cannot reach a destination.
func (m *Member) names(destination string) bool {
	return len(m.Unreachable) >= maxUnreachable || slices.Contains(m.Unreachable, destination)
}

func (m *Member) scouts() bool {
	return slices.ContainsFunc(m.Unreachable, func(name string) bool { return strings.HasPrefix(name, scoutMark) })
}

// yields reports whether one of the others reaches what m does not.
func yields(m *Member, others []Member) bool {
	for _, name := range m.Unreachable {
		if strings.HasPrefix(name, scoutMark) {
			continue
		}
		for i := range others {
			if others[i].Instance != m.Instance && !others[i].names(name) {
				return true
			}
		}
	}
	return false
}

// candidates are the relays that have a share, and those that get a lane to
// scout with.
func (p *pump) candidates(members []Member) (firm, scouts []Member) {
	live := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !p.looksAlive(&m) })
	for _, m := range members {
		switch {
		case yields(&m, live):
		case m.scouts():
			scouts = append(scouts, m)
		default:
			firm = append(firm, m)
		}
	}
	switch {
	case len(firm) > 0:
		return firm, scouts
	case len(scouts) > 0:
		return scouts, nil
	}
	return members, nil
}

// looksAlive reports whether a relay's beat moves. Lanes given up to a relay that
// was just killed would lie idle for a lease.
func (p *pump) looksAlive(m *Member) bool {
	s := p.seen[m.Instance]
	return s == nil || s.epoch != m.Epoch || s.beat != m.Beat || time.Since(s.since) < p.r.cfg.Lease*3/4
}

// mayGiveUp is how many of n lanes above the share are given up at this renewal:
// all, unless they go because a peer reaches more.
func (p *pump) mayGiveUp(n int, members []Member, now time.Time) int {
	firm, _ := p.candidates(members)
	mine := slices.ContainsFunc(firm, func(m Member) bool { return m.Instance == p.fence.Instance })
	scouts := len(members) > 0 && members[0].scouts()
	y, trial := &p.yielding, trialLeases*p.r.cfg.Lease
	if mine || scouts && !yields(&members[0], members) {
		if y.on {
			*y = yielding{since: now}
			p.log.Info("destination no longer better served by another relay: lanes shared again")
		}
		return n
	}
	if !y.on {
		if !y.since.IsZero() && now.Sub(y.since) < trial {
			return 0
		}
		*y = yielding{on: true, since: now, step: 1}
		p.log.Warn("destination unreachable here and not for another relay: giving lanes up", "instance", p.fence.Instance)
	}
	if now.Sub(y.since) >= trial {
		y.step = min(2*y.step, 256)
	}
	return min(n, y.step)
}
