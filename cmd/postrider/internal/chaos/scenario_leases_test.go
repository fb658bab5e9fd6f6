//go:build linux

package chaos

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// scaled is a recipe's number in a soak and a smaller one otherwise.
func scaled(soak, test int) int {
	if os.Getenv("POSTRIDER_SOAK") != "" {
		return soak
	}
	return test
}

// Four relays, a slow broker, one relay killed every two seconds: the first
// deliveries of each key are in order, and nothing is missing. Then one hangs,
// and the keys go on without it.
func TestS12_KilledRelaysKeepTheOrderOfEachKey(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{})
	s.broken = true
	s.put(50, 1, scaled(200, 20))
	s.startRelays()
	for kills := 0; kills < scaled(1000, 3) && s.ask(`SELECT count(*) FROM outbox`) > 0; kills++ {
		until := time.Now().Add(2 * time.Second)
		heal := faults[0].strike(s)
		for time.Now().Before(until) {
			s.toNATS.SetDelay(time.Duration(s.rng.IntN(50)) * time.Millisecond)
			time.Sleep(50 * time.Millisecond)
		}
		heal()
	}
	s.toNATS.SetDelay(0)
	s.until("the outbox runs empty", s.empty)
	s.awaitOwners(4)
	hung := s.relays[s.rng.IntN(4)]
	hung.signal(syscall.SIGSTOP)
	s.put(50, 1001, 1005)
	s.until("the keys go on without the relay that hangs", s.empty)
	hung.signal(syscall.SIGCONT)
	s.finish(func() {})
}

// A lease shorter than the time to send the backlog: with renewals nothing is
// sent twice. A relay that cannot renew stops, and what it sent beyond what the
// other one sends again is at most what was in flight.
func TestS15_LeaseShorterThanTheBacklogLasts(t *testing.T) {
	t.Parallel()
	// A relay holds at most four batches: all that it can have sent and not
	// settled. That is far below its share of the events, or the bound says nothing.
	const batch, inMemory = 25, 4 * 25
	s := newStage(t, plan{relays: 2, publish: 500 * time.Millisecond, batch: batch, ownProxies: true})
	s.startRelays()
	s.toNATS.SetDelay(50 * time.Millisecond) // and as long on the way back
	s.put(20, 1, scaled(100, 30))
	s.until("the outbox runs empty", s.empty)
	if seen := distinct(s.read()); seen.repeated > 0 {
		t.Errorf("%d duplicates with renewals running", seen.repeated)
	}

	before := s.streamed()
	s.broken = true
	s.put(20, 1001, 1040)
	s.until("both relays send", func() bool { return s.streamed() > before+40 })
	s.toPG[0].Pause()
	s.until("the other relay sends the rest", s.empty)
	s.toPG[0].Resume()
	if got := s.finish(func() {}); got.duplicates > inMemory {
		t.Errorf("%d duplicates, at most %d were in flight", got.duplicates, inMemory)
	}
}

// A relay is stopped for three leases in the middle of a batch; the other one
// takes over and finishes. When it wakes it sends at most what was on the wire,
// one event of each key.
func TestS40_APausedRelayDoesNotGoOnAfterItsLease(t *testing.T) {
	t.Parallel()
	const keys = 20
	s := newStage(t, plan{relays: 2, publish: 500 * time.Millisecond})
	s.broken = true
	s.startRelays()
	s.toNATS.SetDelay(20 * time.Millisecond)
	for round := range scaled(20, 2) {
		before := s.streamed()
		from := 1 + round*1000
		s.put(keys, from, from+20)
		s.until("events are sent", func() bool { return s.streamed() > before+20 })
		paused := s.relays[s.rng.IntN(2)]
		paused.signal(syscall.SIGSTOP)
		time.Sleep(3 * s.plan.lease)
		s.until("the other relay finishes", s.empty)
		woken := s.streamed()
		paused.signal(syscall.SIGCONT)
		s.awaitOwners(2)
		sent := 0
		for _, m := range s.read()[woken:] {
			if m.relay == paused.name {
				sent++
			}
		}
		t.Logf("%d events sent after the wake-up", sent)
		if sent > keys {
			t.Errorf("%s sent %d events after its lease, at most one of each key was on the wire", paused.name, sent)
		}
	}
	s.finish(func() {})
}

// What a stale owner writes does not undo what the new one did: the paused relay
// wakes with outcomes to write, and rows, attempts and history stay as they are.
func TestS16_AStaleOwnerChangesNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{relays: 2, publish: 500 * time.Millisecond})
	s.broken = true
	s.startRelays()
	s.put(20, 1, 1)
	s.until("relays are connected to the broker", s.empty)
	for round := range scaled(20, 2) {
		s.toNATS.DropReplies() // calls end without an outcome while it sleeps
		from := 1000 * (round + 1)
		before := s.streamed()
		s.put(20, from, from+10)
		s.until("calls are on their way", func() bool { return s.streamed() > before })
		stale := s.relays[s.rng.IntN(2)]
		stale.signal(syscall.SIGSTOP)
		s.toNATS.Resume()
		s.until("the other relay finishes", s.empty)
		stale.signal(syscall.SIGCONT)
		s.awaitOwners(2)
	}
	s.finish(func() {})
}

// Killed in the middle of a batch: the others deliver again what it had not
// settled. A publish that is slow, but within its timeout and with renewals
// running, is not stolen.
func TestS100_ADeadOwnerIsRescuedASlowOneIsNot(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{relays: 2, lease: 4 * time.Second, publish: 2 * time.Second})
	s.startRelays()
	s.toNATS.SetDelay(300 * time.Millisecond)
	s.put(10, 1, scaled(40, 15)) // one after the other: some leases long
	s.until("the outbox runs empty", s.empty)
	if seen := distinct(s.read()); seen.repeated > 0 {
		t.Errorf("%d duplicates of a slow relay", seen.repeated)
	}

	s.broken = true
	before := s.streamed()
	s.put(10, 1001, 1010)
	s.until("a batch is on its way", func() bool { return s.streamed() > before })
	s.relays[0].kill()
	s.toNATS.SetDelay(0)
	s.until("the other relay delivers the rest", s.empty)
	s.finish(func() {})
}

// Sessions of the relays are ended while they work: no duplicate, since a lease
// is a row and not a session.
func TestS39_TerminatedBackendsMakeNoSecondOwner(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{pooled: true, lease: 10 * time.Second, publish: 5 * time.Second})
	s.startRelays()
	stop := s.write(4)
	for range scaled(50, 4) {
		s.flow(30)
		terminateBackends(s)
	}
	s.finish(stop)
}
