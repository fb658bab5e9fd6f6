//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"time"
)

func seedFromEnvironment() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("POSTRIDER_CHAOS_SEED"), 10, 64); err == nil {
		return n
	}
	return rand.Uint64()
}

func userOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // it came from testenv
	}
	return u.User.Username()
}

// startRelays starts all and returns when each of them owns lanes.
func (s *stage) startRelays() {
	s.Helper()
	for _, r := range s.relays {
		r.start()
	}
	s.awaitOwners(len(s.relays))
}

// awaitOwners returns when n relays share the lanes.
func (s *stage) awaitOwners(n int) {
	s.Helper()
	s.until(strconv.Itoa(n)+" relays share the lanes", func() bool {
		return s.ask(`SELECT CASE WHEN bool_or(owner IS NULL) THEN 0 ELSE count(DISTINCT owner) END FROM outbox_lane`) == n
	})
}

// flow returns when n more events were committed and others settled since.
func (s *stage) flow(n int) {
	s.Helper()
	goal := s.ledger.written() + n
	s.until("the writers commit", func() bool { return s.ledger.written() >= goal })
	s.until("events are settled", func() bool {
		// The highest id of the truth's newest events is not known; that nothing
		// older than a moment is pending says as much.
		return s.ask(`SELECT count(*) FROM outbox WHERE queued_at < clock_timestamp() - interval '1 second' AND available_at IS NULL`) == 0
	})
}

// finish stops the writers, lets the outbox run empty, stops the relays in good
// order, and checks.
func (s *stage) finish(stopWriters func()) tally {
	s.Helper()
	stopWriters()
	s.note("writers stopped")
	s.until("the outbox runs empty", func() bool { return s.ask(`SELECT count(*) FROM outbox`) == 0 })
	s.note("outbox empty")
	for _, r := range s.relays {
		if r.running() {
			s.stop(r)
		}
	}
	return s.check()
}

// play is a round of one fault.
func (s *stage) play(f fault) {
	s.Helper()
	s.startRelays()
	stop := s.write(6)
	s.flow(200)
	s.broken = true
	s.note("strikes: %s", f.name)
	heal := f.strike(s)
	s.last(f)
	heal()
	s.note("healed: %s", f.name)
	s.flow(200)
	s.finish(stop)
}

// last lets a fault last.
func (s *stage) last(f fault) {
	more := time.Duration(s.rng.IntN(500)) * time.Millisecond
	time.Sleep(time.Duration(f.leases*float64(s.plan.lease)) + more)
}

// put writes events of the versions from to to about as many accounts, each
// version in a transaction.
func (s *stage) put(accounts, from, to int) {
	s.Helper()
	for v := from; v <= to; v++ {
		s.pg.Exec(s.T, s.admin(), fmt.Sprintf(`
			WITH event AS (SELECT gen_random_uuid() AS id, 'account-' || n AS key FROM generate_series(1, %d) n),
			noted AS (INSERT INTO truth SELECT id, 'orders', key, %d FROM event)
			INSERT INTO outbox (event_id, topic, key, payload, subject_version) SELECT id, 'orders', key, '{}', %[2]d FROM event`, accounts, v))
	}
}

func (s *stage) empty() bool {
	s.Helper()
	return s.ask(`SELECT count(*) FROM outbox`) == 0
}

// counts is how many events a stream holds, and how many messages repeat one.
type counts struct{ events, repeated int }

func distinct(stream []message) (c counts) {
	seen := map[string]bool{}
	for _, m := range stream {
		if seen[m.id] {
			c.repeated++
		}
		seen[m.id] = true
	}
	c.events = len(seen)
	return c
}
