//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv"
)

// fact is what the database says of a committed event.
type fact struct {
	topic, key string
	version    int64
	due        *time.Time
}

// truth reads the committed events of a server.
func (s *stage) truth(pg *testenv.PG) map[string]fact {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, pg.URL("", s.database))
	if err != nil {
		s.Fatal(err)
	}
	defer conn.Close(ctx)
	facts := map[string]fact{}
	rows, err := conn.Query(ctx, `SELECT event_id::text, topic, key, version, due FROM truth`)
	if err != nil {
		s.Fatal(err)
	}
	var id string
	var f fact
	if _, err := pgx.ForEachRow(rows, []any{&id, &f.topic, &f.key, &f.version, &f.due}, func() error {
		facts[id] = f
		return nil
	}); err != nil {
		s.Fatal(err)
	}
	return facts
}

// offences collects what is wrong; the first ones of each kind are shown.
type offences struct {
	kinds []string
	first map[string][]string
	count map[string]int
}

func (o *offences) add(kind, format string, args ...any) {
	if o.count == nil {
		o.first, o.count = map[string][]string{}, map[string]int{}
	}
	if o.count[kind]++; o.count[kind] == 1 {
		o.kinds = append(o.kinds, kind)
	}
	if o.count[kind] <= 5 {
		o.first[kind] = append(o.first[kind], fmt.Sprintf(format, args...))
	}
}

// tally is what a round came to.
type tally struct{ committed, delivered, duplicates, lostByPromotion int }

// check compares the stream with the truth, and the outbox's tables with both.
// All servers run, no relay does.
func (s *stage) check() tally {
	s.Helper()
	var o offences
	stream, facts := s.read(), s.truth(s.pg)
	lost := map[string]fact{} // committed once, and lost by a promotion
	if s.old != nil {
		s.old.Start()
		for id, f := range s.truth(s.old) {
			if _, ok := facts[id]; !ok {
				lost[id] = f
			}
		}
	}
	got := tally{committed: len(facts), delivered: len(stream), lostByPromotion: len(lost)}

	seen := map[string]message{}
	for _, m := range stream {
		f, ok := facts[m.id]
		if !ok {
			f, ok = lost[m.id]
		}
		if !ok {
			o.add("invented", "%v, which the writer knows as %v", m, s.ledger.events[m.id])
			continue
		}
		if f.topic != m.topic || f.key != m.key {
			o.add("changed", "%v, written for topic %s, key %q", m, f.topic, f.key)
		}
		if f.due != nil && m.at.Before(*f.due) {
			o.add("early", "%v, due at %v", m, f.due.UTC())
		}
		if first, again := seen[m.id]; again {
			got.duplicates++
			if !s.broken {
				o.add("duplicate without a fault", "%v, after %v", m, first)
			}
			continue
		}
		seen[m.id] = m
	}
	for id, f := range facts {
		if _, ok := seen[id]; !ok {
			o.add("lost", "event %s, topic %s, key %q, version %d", id, f.topic, f.key, f.version)
		}
	}
	inOrder(&o, stream, facts)
	inOrder(&o, stream, lost)
	s.checkWriters(&o, facts, lost)
	s.checkTables(&o, len(facts))
	for _, kind := range o.kinds {
		s.Errorf("%s: %d", kind, o.count[kind])
		for _, text := range o.first[kind] {
			s.Log("  " + text)
		}
	}
	s.Logf("committed=%d delivered=%d duplicates=%d lost_by_promotion=%d", got.committed, got.delivered, got.duplicates, got.lostByPromotion)
	return got
}

// inOrder checks the first deliveries of each topic and key of an account. A
// promoted server gives the versions that it does not know of anew, so what it
// lost is looked at by itself.
func inOrder(o *offences, stream []message, facts map[string]fact) {
	type line struct{ topic, key string }
	last, seen := map[line]message{}, map[string]bool{}
	for _, m := range stream {
		f, ok := facts[m.id]
		if !ok || f.version == 0 || seen[m.id] {
			continue
		}
		seen[m.id] = true
		l := line{f.topic, f.key}
		if before, ok := last[l]; ok && facts[before.id].version >= f.version {
			o.add("out of order", "%v, version %d, after version %d in %v", m, f.version, facts[before.id].version, before)
		}
		last[l] = m
	}
}

// checkWriters holds what the database says against what the writers were told.
func (s *stage) checkWriters(o *offences, facts, lost map[string]fact) {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	for id, f := range s.ledger.events {
		_, there := facts[id]
		_, was := lost[id]
		switch {
		case f == committed && !there && !was:
			o.add("the database lost", "event %s, whose commit was answered", id)
		case f == rolledBack && (there || was):
			o.add("the database kept", "event %s, which was rolled back", id)
		}
	}
}

// checkTables looks at what the relays left in the database.
func (s *stage) checkTables(o *offences, events int) {
	s.Helper()
	if n := s.ask(`SELECT count(*) FROM outbox`); n != 0 {
		o.add("pending", "%d events, when all was done", n)
	}
	if n := s.ask(`SELECT count(*) FROM outbox_dead`); n != 0 {
		o.add("dead letters", "%d, from outages", n)
	}
	// The note of an event that is sent alone after a crash is not an attempt.
	if n := s.ask(`SELECT count(*) FROM outbox_delivered WHERE attempts > 0 AND last_error NOT LIKE 'sent alone after a crash%'`); n != 0 {
		o.add("attempts counted", "for %d events, from outages", n)
	}
	if n := s.ask(`SELECT count(*) - count(DISTINCT event_id) FROM outbox_delivered`); n != 0 {
		o.add("delivered twice in the history", "%d", n)
	}
	if n := s.ask(`SELECT count(*) FROM outbox_delivered`); n > events || s.plan.retention > time.Hour && n != events {
		o.add("history", "%d events, %d were committed", n, events)
	}
}
