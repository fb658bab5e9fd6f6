package relay

import (
	"time"
)

// # Destinations
//
// A destination is what fails as one. It is open, paused, or probing:
//
//	        failure                     pause over
//	open ────────────► paused ────────────────────────► probing
//	  ▲                  ▲   all probes failed             │
//	  │                  └─────────────────────────────────┤
//	  └────────────────────────────────────────────────────┘
//	                     one event accepted
//
// A failure that is not the broker's answer for this very event may be the
// destination's fault or the key's. The failed key becomes a suspect and the
// destination pauses; then it is probed with single events of up to three other
// keys and of the suspect, the others first. If others pass after the suspect's
// failure and the suspect fails again, only its key waits. If nobody passes,
// the destination pauses for longer. Neither counts an attempt.
//
// While it is paused its topics are left out of the fetch, what waits for it is
// forgotten, and nothing is written.
type destination struct {
	broker     Broker
	brokerName string
	name       string
	id         string // its key in dispatcher.destinations
	outlet     *outlet
	ready      []*queue // the line
	waiting    bool     // in outlet.waiting
	queued     int      // rows that wait for it in memory
	calls      int

	state    destState
	probes   int // single events that may still fail in this round of probing
	until    time.Time
	failures int
	cause    error
	since    time.Time
	size     int           // events of the next call
	rate     float64       // events a second, beside the time that any call takes
	floor    time.Duration // that time
	turn     time.Duration // what one more event of the same key takes
	turns    int           // events of one key in the next call
	suspects map[suspectKey]*suspect
	solos    int       // calls on their way that hold one suspect
	failedAt uint64    // dispatcher.failSeq at the last failure
	dynamic  bool      // its topic has other destinations too, so it cannot be left out of the fetch
	fixed    bool      // a topic has no other
	moved    time.Time // when a call last began after none, or returned
	scout    scouting  // unreachable.go
	parked   bool      // stuck while the memory was full: as if paused, until a call returns
}

type destState int

const (
	destOpen destState = iota
	destPaused
	destProbing
)

// suspectKey names what may be at fault: a key, or a single event without one,
// since those are independent of each other.
type suspectKey struct {
	Key
	id RowID
}

func (it *item) suspectKey() suspectKey {
	if it.row.Key.Key == "" {
		return suspectKey{it.row.Key, it.row.ID}
	}
	return suspectKey{Key: it.row.Key}
}

// suspect is a key whose failure may be its own fault.
type suspect struct {
	seq        uint64 // dispatcher.failSeq at its last failure
	othersPass bool   // other keys were accepted by a call begun after that
	times      int    // failures that are its own: others passed
}

const (
	probesPerRound = 4
	firstPause     = 100 * time.Millisecond
	longestPause   = 15 * time.Second
	// longestRetryAfter caps what a destination may ask for.
	longestRetryAfter = time.Hour
	maxSuspects       = 64
)

func (d *destination) paused() bool  { return d.state == destPaused }
func (d *destination) probing() bool { return d.state == destProbing }

// callSize is the number of events of the next call.
func (d *destination) callSize() int {
	if d.probing() {
		return 1
	}
	return max(d.size, 1)
}

// callTurns is the number of events that the next call may hold of one key.
func (d *destination) callTurns() int { return max(d.turns, 1) }

// growTurns learns how many events of one key fit into a call. Where they are
// sent one after the other, each waits for the acknowledgement of the one before,
// and a call lasts as long as its longest key: its number of events says nothing
// about that.
func (d *destination) growTurns(longest int, took, timeout time.Duration) {
	if longest == 0 {
		return
	}
	turn := max(took/time.Duration(longest), time.Microsecond)
	d.turn = max(turn, d.turn-(d.turn-turn)/4)
	d.turns = min(2*max(d.turns, 1), max(int(timeout/2/d.turn), 1))
}

// grow learns from a call that was accepted. A call takes a time of its own and
// a time for each event; only the latter says how many more would fit. Taken
// together, a destination that needs a second to answer anything at all would
// be sent one event a call for ever.
func (d *destination) grow(events int, took, timeout time.Duration) {
	took = max(took, time.Microsecond)
	d.floor += d.floor / 64 // it may have become slower
	if d.floor == 0 || took < d.floor {
		d.floor = took
	}
	rate := float64(events) / max(took-d.floor, took/16).Seconds()
	if d.rate == 0 || rate < d.rate { // believed at once: too large a call times out
		d.rate = rate
	}
	d.rate = 0.7*d.rate + 0.3*rate
	left := max(timeout/2-d.floor, timeout/16)
	d.size = max(1, min(2*max(d.size, 1), 1+int(d.rate*left.Seconds()), maxCallSize))
}

const maxCallSize = 8192

// pause closes the destination for a while after a failure.
func (p *pump) pause(d *destination, err error) {
	now := time.Now()
	first := !d.paused() && d.failures == 0
	if !d.paused() {
		d.failures++
	}
	b := backoff{base: firstPause, cap: longestPause, n: d.failures - 1}
	wait := b.next()
	if asked := min(RetryDelay(err), longestRetryAfter); asked > wait {
		wait = asked + jitterUp(asked)
	}
	if d.cause == nil {
		d.since = now
	}
	if first { // and not for each key of the call that failed
		p.log.Warn("destination unavailable", "broker", d.brokerName, "destination", p.safeName(d), "error", safeError(err), hintAttr(HintOf(err)))
	}
	d.state, d.cause, d.size, d.rate, d.floor, d.turn, d.turns = destPaused, err, 1, 0, 0, 0, 1
	if until := now.Add(wait); until.After(d.until) {
		d.until = until
	}
	p.change++
	p.pausedDests[d] = struct{}{}
	p.forgetReady(d)
}

// failed is told of a failure that may be the destination's or the key's. It
// reports whether the key alone is at fault.
func (p *pump) failed(d *destination, k suspectKey, err error) (alone bool, times int) {
	p.failSeq++
	d.failedAt = p.failSeq
	d.scout.failed, d.scout.cured = time.Now(), false
	if RetryDelay(err) > 0 { // its own words: it is the destination, and probes must wait too
		p.pause(d, err)
		return false, 0
	}
	s := d.suspects[k]
	if s != nil && (s.othersPass || s.times > 0) {
		s.times++
		s.seq, s.othersPass = p.failSeq, false
		return true, s.times
	}
	if s == nil {
		d.accuse(k, p.failSeq)
	} else {
		s.seq = p.failSeq
	}
	if d.probing() {
		d.probes--
		d.cause = err
		if d.probes > 0 && len(d.ready) > 0 {
			return false, 0 // the next probe decides
		}
	}
	p.pause(d, err)
	return false, 0
}

// accuse makes a key a suspect. Of too many the oldest is dropped: its event may
// long have been sent by another relay, or removed.
func (d *destination) accuse(k suspectKey, seq uint64) {
	if len(d.suspects) >= maxSuspects {
		var oldest suspectKey
		least := ^uint64(0)
		for other, s := range d.suspects {
			if s.seq < least {
				oldest, least = other, s.seq
			}
		}
		delete(d.suspects, oldest)
	}
	d.suspects[k] = &suspect{seq: seq}
}

// reopen lets the destinations whose pause is over be probed.
func (p *pump) reopen(now time.Time) {
	for d := range p.pausedDests {
		if !d.paused() {
			delete(p.pausedDests, d)
			continue
		}
		if now.Before(d.until) {
			p.wakeBy(d.until)
			continue
		}
		delete(p.pausedDests, d)
		d.state, d.probes, d.size = destProbing, probesPerRound, 1
		p.change++
		p.again = true
		p.sweepKeys(now)
		p.activate(d)
	}
}

// works notes that a destination answered for something of key k in call c: it
// accepted it, or refused that very event.
func (p *pump) works(d *destination, c *call, k suspectKey) {
	delete(d.suspects, k)
	for other, s := range d.suspects {
		if other != k && s.seq <= c.seq {
			s.othersPass = true
		}
	}
	if d.state != destOpen && c.seq >= d.failedAt {
		d.state = destOpen
		if d.failures > 0 {
			p.log.Info("destination available", "broker", d.brokerName, "destination", p.safeName(d), "after", time.Since(d.since).Round(time.Millisecond))
		}
		d.failures, d.cause, d.until = 0, nil, time.Time{}
		p.change++
		p.activate(d)
	}
}
