package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/relay"
)

// settleSettings force one look-up by primary key for each row: with the
// statistics of an empty table the planner reads all of a full one.
//
// lock_timeout is for the history: somebody's ALTER TABLE on it must not stop
// the relay, see Settle.
var settleSettings = []setting{
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"enable_hashjoin", "off"},
	{"enable_mergejoin", "off"},
	{"enable_memoize", "off"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},
	{"lock_timeout", "2000"},
}

// asyncSettings are for settlements of nothing but delivered rows.
var asyncSettings = append(slices.Clip(settleSettings), setting{"synchronous_commit", "off"})

// Settle implements relay.Store.
//
// If the history cannot be written (no rights, no space, locked by somebody),
// the same settlement is made once more without it: an event that was delivered
// and stays in the outbox is sent again for ever, which is worse than an event
// that is missing in the history.
func (s *Store) Settle(ctx context.Context, batch relay.Settlement) (relay.Settled, error) {
	history := s.cfg.Retention != NoRetention
	out, err := s.settle(ctx, batch, history)
	if err == nil || !history || len(batch.Delivered) == 0 || !blamesHistory(err) {
		return out, wrap("settle", err)
	}
	without, again := s.settle(ctx, batch, false)
	if again != nil {
		return relay.Settled{}, wrap("settle", again)
	}
	without.History = fmt.Errorf("%w: %w", relay.ErrNoHistory, redact(err))
	return without, nil
}

// blamesHistory reports whether a settle without the history may succeed where
// this one failed: the server refused the statement and is otherwise well. A
// deadlock (40), a cancelled statement (57) and a lost connection (08) say nothing
// about the history, and the caller repeats the whole settlement.
func blamesHistory(err error) bool {
	state := sqlState(err)
	if len(state) != 5 || isStale(err) {
		return false
	}
	return state[:2] != "40" && state[:2] != "57" && state[:2] != "08"
}

func (s *Store) settle(ctx context.Context, batch relay.Settlement, history bool) (relay.Settled, error) {
	open := s.opened.Load()
	if open == nil {
		return relay.Settled{}, errNotOpen
	}
	statements, done := s.settleStatements(batch, history, open.utf8)
	if len(statements) == 0 {
		return relay.Settled{}, nil
	}
	settings := settleSettings
	if len(batch.Marks) == 0 && len(batch.Dead) == 0 && !s.cfg.DurableSettle {
		settings = asyncSettings
	}
	if err := s.run(ctx, settings, statements...); err != nil {
		return relay.Settled{}, err
	}
	missed := len(batch.Delivered) + len(batch.Marks) + len(batch.Dead)
	for _, n := range done {
		missed -= *n
	}
	return relay.Settled{Missed: missed}, nil
}

// settleStatements makes the statements of a settlement; done are the numbers
// of rows that they will have changed.
func (s *Store) settleStatements(batch relay.Settlement, history, utf8 bool) (list []statement, done []*int) {
	add := func(sql string, params ...param) {
		n := new(int)
		list, done = append(list, statement{sql: sql, params: params, affected: n}), append(done, n)
	}
	if rows := sortedByID(batch.Delivered, func(r *relay.Ref) *relay.Ref { return r }); len(rows) > 0 {
		refs := refParams(len(rows), func(i int) *relay.Ref { return rows[i] })
		if history {
			add(s.sql.keep, append(refs, float8Param(s.slotWidth().Seconds()))...)
		} else {
			add(s.sql.drop, refs...)
		}
	}
	if rows := sortedByID(batch.Marks, func(m *relay.Mark) *relay.Ref { return &m.Ref }); len(rows) > 0 {
		n := len(rows)
		add(s.sql.mark, append(refParams(n, func(i int) *relay.Ref { return &rows[i].Ref }),
			textArray(n, func(i int) string { return string(rows[i].Held) }),
			int8Array(n, func(i int) int64 { return max(rows[i].After.Microseconds(), 0) }),
			int4Array(n, func(i int) int32 { return saturate(rows[i].Attempts) }),
			boolArray(n, func(i int) bool { return rows[i].Keep }),
			textArray(n, func(i int) string { return sanitise(rows[i].Error, 1000, utf8) }))...)
	}
	if rows := sortedByID(batch.Dead, func(d *relay.Death) *relay.Ref { return &d.Ref }); len(rows) > 0 {
		n := len(rows)
		add(s.sql.bury, append(refParams(n, func(i int) *relay.Ref { return &rows[i].Ref }),
			int4Array(n, func(i int) int32 { return saturate(rows[i].Attempts) }),
			textArray(n, func(i int) string { return sanitise(rows[i].Class, 100, utf8) }),
			textArray(n, func(i int) string { return sanitise(rows[i].Cause, 1000, utf8) }),
			textParam(batch.Fence.Instance), int8Param(batch.Fence.Epoch))...)
	}
	return list, done
}

// slotWidth is the time that one slot of the history holds.
func (s *Store) slotWidth() time.Duration { return s.cfg.Retention / 6 }

// sortedByID returns pointers to the items in ascending order of id, so that two
// settles never lock the same rows in different orders.
func sortedByID[T any](items []T, ref func(*T) *relay.Ref) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	slices.SortFunc(out, func(a, b *T) int { return cmp.Compare(ref(a).ID.Int(), ref(b).ID.Int()) })
	return out
}

func refParams(n int, at func(int) *relay.Ref) []param {
	return []param{
		int8Array(n, func(i int) int64 { return at(i).ID.Int() }),
		uuidArray(n, func(i int) [16]byte { return at(i).EventID }),
		int4Array(n, func(i int) int32 { return saturate(at(i).Generation) }),
	}
}

// saturate keeps a counter inside its column: one row at the limit must not fail
// the batch.
func saturate(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// sanitise makes a text that no database refuses: no NUL, valid UTF-8, at most
// limit bytes. A database that is not in UTF-8 gets ASCII, because what its
// encoding lacks is an error.
func sanitise(s string, limit int, unicode bool) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == 0:
			return -1
		case !unicode && r > 126:
			return '?'
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	s = s[:limit]
	for len(s) > 0 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size > 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}
