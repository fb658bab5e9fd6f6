package modeltest

import (
	"fmt"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// The model: what writers did, what the broker accepted in which order, and what
// the database holds once everything has healed and is quiet. It knows nothing
// of how a relay works. Its rules are the guarantees:
//
//  1. Nothing invented: what was accepted had been committed before, and arrived
//     as written.
//  2. Nothing lost: each committed event was accepted and is in the history, or
//     is a dead letter where its fate and the policy say so, or waits in a key
//     whose head is blocked for such a reason.
//  3. In order: of two events of one topic and key that both were accepted, the
//     first deliveries are in order if the second took its place after the first
//     was committed in its own, or both stand in one transaction in that order.
//     A scheduled event takes its place when it is promoted. An event that left
//     its key for the dead letters has no order.
//  4. Without a fault (a crash, a pause, a lost reply) nothing is accepted twice,
//     a dead letter was never accepted, and only refusals of the very event count
//     as attempts.
//  5. A relay keeps the rules of a Publish call.
type model struct {
	events  []*written
	faulty  bool // the run had a crash, a pause or a lost reply
	policy  string
	refusal map[string]int // counted refusals by payload
}

// written is an event as its writer knows it.
type written struct {
	row       relay.Row
	tx, n     int // its transaction, its number
	inserted  time.Time
	committed time.Time // zero: rolled back
	fate      fate
}

// body is the payload, by which an event is known at the broker.
func (e *written) body() string { return string(e.row.Payload) }

// check returns every breach of the rules.
func (m *model) check(db *memory.Database, broker *memory.Server) (breaches []string) {
	breach := func(format string, args ...any) { breaches = append(breaches, fmt.Sprintf(format, args...)) }
	first, times := map[string]int{}, map[string]int{}
	byBody := map[string]*written{}
	for _, e := range m.events {
		byBody[e.body()] = e
	}
	for i, a := range broker.Log() {
		body := string(a.Payload)
		e := byBody[body]
		if times[body]++; times[body] == 1 {
			first[body] = i
		} else if !m.faulty {
			breach("duplicate without a fault: %s", body)
		}
		switch {
		case e == nil:
			breach("invented: %q", body)
		case e.committed.IsZero() || a.At.Before(e.committed):
			breach("not committed: %s", body)
		case a.Topic != e.row.Topic || a.Event.Key != e.row.Key.Key:
			breach("changed: %s arrived as topic %q, key %q", body, a.Topic, a.Event.Key)
		}
	}

	final := map[string]relay.Row{} // the row in its last state
	blocked := map[relay.Key]bool{}
	for _, h := range db.Held() {
		final[string(h.Payload)] = h.Row
		if h.State == relay.HeldBlocked {
			blocked[h.Row.Key] = h.Row.Key.Key != ""
			if e := byBody[string(h.Payload)]; !m.endsIn(e, relay.OnFailureBlock) {
				breach("blocked without a reason: %s (%s)", e.body(), h.LastError)
			}
		} else if !blocked[h.Row.Key] {
			breach("waiting for nothing: %s is %s", h.Payload, h.State)
		}
	}
	dead := map[string]bool{}
	for _, d := range db.Dead() {
		body := string(d.Payload)
		final[body], dead[body] = d.Row, true
		if e := byBody[body]; !m.endsIn(e, relay.OnFailureDeadLetter) {
			breach("dead without a reason: %s (%s: %s)", body, d.Class, d.Cause)
		}
		if times[body] > 0 && !m.faulty {
			breach("dead and accepted: %s", body)
		}
	}
	for _, d := range db.Delivered() {
		body := string(d.Payload)
		final[body] = d.Row
		if times[body] == 0 {
			breach("lost: %s is in the history and never was accepted", body)
		}
	}
	for _, r := range db.Pending() {
		if _, held := final[string(r.Payload)]; !held {
			breach("left behind: %s", r.Payload)
			final[string(r.Payload)] = r
		}
	}
	for _, e := range m.events {
		row, found := final[e.body()]
		if found == e.committed.IsZero() {
			breach("%s: committed %v, found %v", e.body(), !e.committed.IsZero(), found)
		}
		if n := m.refusal[e.body()]; row.Attempts > n && !m.faulty {
			breach("%s has %d attempts after %d refusals", e.body(), row.Attempts, n)
		}
		e.row.ID, e.row.Queued = row.ID, row.Queued
	}
	for _, a := range m.events {
		for _, b := range m.events {
			if times[a.body()] > 0 && times[b.body()] > 0 && !dead[a.body()] && !dead[b.body()] &&
				a.precedes(b) && first[a.body()] > first[b.body()] {
				breach("out of order: %s after %s", a.body(), b.body())
			}
		}
	}
	for _, v := range broker.Violations() {
		breach("violation: %s", v)
	}
	return breaches
}

// endsIn reports whether an event may end blocked, or as a dead letter.
func (m *model) endsIn(e *written, state string) bool {
	if !e.fate.final {
		return false
	}
	if m.policy != "" {
		return m.policy == state
	}
	return (e.row.Key.Key == "") == (state == relay.OnFailureDeadLetter)
}

// precedes reports whether e must be delivered before later.
func (e *written) precedes(later *written) bool {
	if e.row.Key != later.row.Key || e.row.Key.Key == "" {
		return false
	}
	done, drawn := e.committed, later.inserted
	if scheduled(e) {
		done = e.row.Queued
	}
	if scheduled(later) {
		drawn = later.row.Queued
	}
	if scheduled(e) == scheduled(later) && (e.tx == later.tx || scheduled(e) && done.Equal(drawn)) {
		return e.row.ID.Int() < later.row.ID.Int()
	}
	return done.Before(drawn)
}

func scheduled(e *written) bool { return e.row.Available.After(e.inserted) }
