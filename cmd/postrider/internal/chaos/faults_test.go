//go:build linux

package chaos

import (
	"fmt"
	"slices"
	"syscall"
	"time"
)

// fault is one thing that breaks. It strikes and heals on the test's goroutine;
// between the two others may strike what it does not use.
type fault struct {
	name string
	// uses are the parts that no other fault may touch meanwhile. A relay that a
	// fault has taken is not taken by another in any case.
	uses []string
	// alone is set where nothing else may be broken, because it waits for what
	// only whole parts do.
	alone bool
	// leases is how long it lasts at least.
	leases float64
	// needs asks for the parts of the stage that it breaks. May be nil.
	needs func(*plan)
	// strike breaks, and returns what heals.
	strike func(*stage) (heal func())
}

const promotion = "an asynchronous standby is promoted"

var faults = []fault{
	{name: "a relay is killed", leases: 1.5, strike: killRelay},
	{name: "a relay is paused past its lease", leases: 1.5, strike: pauseRelay},
	{name: "a relay is stopped in good order", strike: stopRelay},
	{name: "the database is restarted", uses: []string{"database"}, strike: func(s *stage) func() {
		s.pg.Stop()
		return s.pg.Start
	}},
	{name: "the database crashes", uses: []string{"database"}, leases: 0.5, strike: func(s *stage) func() {
		s.pg.Kill()
		return s.pg.Start
	}},
	{name: "the database is paused", uses: []string{"database"}, leases: 1, strike: func(s *stage) func() {
		s.pg.Pause()
		return s.pg.Resume
	}},
	{name: "the broker crashes", uses: []string{"broker"}, leases: 0.5, strike: func(s *stage) func() {
		s.nats.Kill()
		return s.nats.Start
	}},
	{name: "the broker is paused", uses: []string{"broker"}, leases: 1.5, strike: func(s *stage) func() {
		s.nats.Pause()
		return s.nats.Resume
	}},
	{name: "the pooler is restarted", uses: []string{"pooler"}, needs: pooled, strike: func(s *stage) func() {
		s.bouncer.Kill()
		return s.bouncer.Start
	}},
	{name: "backends are terminated", uses: []string{"database"}, needs: pooled, strike: terminateBackends},
	{name: "the network to the broker is half-open", uses: []string{"broker"}, leases: 1.5, strike: func(s *stage) func() {
		s.toNATS.Pause()
		return s.toNATS.Resume
	}},
	{name: "acks are lost", uses: []string{"broker"}, leases: 0.5, strike: func(s *stage) func() {
		s.toNATS.DropReplies()
		return s.toNATS.Resume
	}},
	{name: "a relay's network to the database is half-open", leases: 1.5, needs: ownProxies, strike: halfOpen},
	{name: promotion, uses: []string{"database", "broker"}, needs: withStandby, strike: promote},
	{name: "relays join and leave", alone: true, strike: joinAndLeave},
}

func pooled(p *plan)      { p.pooled = true }
func ownProxies(p *plan)  { p.ownProxies = true }
func withStandby(p *plan) { p.standby = true }

// take draws a relay that runs and that no other fault holds.
func (s *stage) take() *process {
	s.Helper()
	var free []*process
	for _, r := range s.relays {
		if r.running() && !s.taken[r] {
			free = append(free, r)
		}
	}
	if len(free) == 0 {
		s.Fatal("no relay is left to break")
	}
	r := free[s.rng.IntN(len(free))]
	s.taken[r] = true
	s.note("it is %s", r.name)
	return r
}

func (s *stage) giveBack(r *process) { delete(s.taken, r) }

func killRelay(s *stage) func() {
	r := s.take()
	r.kill()
	return func() { r.start(); s.giveBack(r) }
}

func pauseRelay(s *stage) func() {
	r := s.take()
	r.signal(syscall.SIGSTOP)
	return func() { r.signal(syscall.SIGCONT); s.giveBack(r) }
}

func stopRelay(s *stage) func() {
	r := s.take()
	s.stop(r)
	return func() { r.start(); s.giveBack(r) }
}

// stop ends a relay in good order, within the time that it is given (S98).
func (s *stage) stop(r *process) {
	s.Helper()
	if took := r.stop(); took > s.plan.drain+time.Second {
		s.Errorf("%s took %v to stop, drain_timeout is %v", r.name, took, s.plan.drain)
	}
}

// terminateBackends ends sessions of the relays, several times, pooled ones too
// (S39).
func terminateBackends(s *stage) func() {
	for range 5 {
		n := s.pg.TerminateBackends(s.T, fmt.Sprintf(`usename = '%s' AND random() < 0.7`, s.relayer))
		s.note("%d backends terminated", n)
		time.Sleep(time.Duration(100+s.rng.IntN(300)) * time.Millisecond)
	}
	return func() {}
}

func halfOpen(s *stage) func() {
	n := s.rng.IntN(len(s.toPG))
	proxy := s.toPG[n]
	s.note("it is number %d", n)
	proxy.Pause()
	return proxy.Resume
}

// promote makes the standby the primary: after the link to it was cut, with
// events committed and delivered that it has never seen, and with about a
// hundred acks open.
func promote(s *stage) func() {
	s.link.Refuse()
	delivered := s.streamed()
	s.until("events are delivered that the standby does not have", func() bool { return s.streamed() > delivered+50 })
	s.toNATS.DropReplies()
	goal := s.ledger.written() + 150
	s.until("acks are open", func() bool { return s.ledger.written() >= goal })
	s.note("promotion, %d events pending", s.ask(`SELECT count(*) FROM outbox`))
	s.pg.Kill()
	s.standby.Promote(s.T)
	s.old, s.pg, s.standby = s.pg, s.standby, nil
	s.urlFile(s.pg)
	s.primary.Store(s.pg)
	return s.toNATS.Resume
}

// joinAndLeave lets the relays become few and many.
func joinAndLeave(s *stage) func() {
	for _, r := range s.relays[2:] {
		if r.running() {
			s.stop(r)
		}
	}
	s.awaitOwners(2)
	for _, r := range s.relays[2:] {
		r.start()
	}
	s.awaitOwners(len(s.relays))
	for _, r := range s.relays[1:] {
		s.stop(r)
	}
	s.awaitOwners(1)
	return func() {
		for _, r := range s.relays[1:] {
			r.start()
		}
	}
}

// clash reports whether two faults touch the same part.
func clash(a, b fault) bool {
	return slices.ContainsFunc(a.uses, func(part string) bool { return slices.Contains(b.uses, part) })
}
