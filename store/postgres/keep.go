package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider/relay"
)

// keepBatch bounds the dead letters that one Keep removes.
const keepBatch = 5000

// Promote implements relay.Store.
func (s *Store) Promote(ctx context.Context, limit int) (int, error) {
	if s.opened.Load() == nil {
		return 0, errNotOpen
	}
	var promoted int
	err := s.run(ctx, settleSettings, statement{
		sql: s.sql.promote, params: []param{int4Param(int32(min(max(limit, 1), 1<<20)))}, affected: &promoted,
	})
	return promoted, wrap("promote", err)
}

// Keep implements relay.Store. One call empties at most one part of the history
// and removes at most 5,000 dead letters.
//
// Kept.Removed counts the rows of an emptied part by the server's estimate.
func (s *Store) Keep(ctx context.Context) (relay.Kept, error) {
	if s.opened.Load() == nil {
		return relay.Kept{}, errNotOpen
	}
	var out relay.Kept
	history, err := s.keepHistory(ctx)
	out.Removed += history.Removed
	dead, deadErr := s.keepDead(ctx)
	out.Removed += dead.Removed
	out.More = history.More || dead.More
	return out, wrap("keep", errors.Join(err, deadErr, s.keepLeases(ctx)))
}

// keepHistory empties the part of the history that has been past its retention
// for longest. The parts are looked at first and locked only if one is due; under
// the lock it is looked at again, because a settle may have filled it meanwhile.
func (s *Store) keepHistory(ctx context.Context) (relay.Kept, error) {
	retention := max(s.cfg.Retention, 0) // NoRetention: whatever an earlier configuration kept
	age := int8Param(retention.Microseconds())
	slot := -1
	look := statement{sql: s.sql.ringState, params: []param{age}, row: func(v [][]byte) error {
		slot = int(int4Value(v[0]))
		return nil
	}}
	if err := s.run(ctx, nil, look); err != nil || slot < 0 {
		return relay.Kept{}, err
	}
	removed, err := s.emptyPart(ctx, slot, look.params)
	if sqlState(err) == stateLockNotAvailable {
		return relay.Kept{}, nil // somebody reads it; the next Keep tries again
	}
	return relay.Kept{Removed: removed, More: removed > 0}, err
}

// emptyPart truncates one part if its newest row is still past the retention.
func (s *Store) emptyPart(ctx context.Context, slot int, age []param) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.StatementTimeout+5*time.Second)
	defer cancel()
	conn, err := s.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { s.release(conn, err) }()
	pg := conn.Conn().PgConn()

	due := false
	err = pipeline(ctx, pg, []statement{
		begin, s.configure([]setting{{"lock_timeout", "100"}, {"synchronous_commit", "off"}}),
		{sql: s.sql.ring[slot].size, row: func(v [][]byte) error { removed = int8Value(v[0]); return nil }},
		{sql: s.sql.ring[slot].lock},
		{sql: s.sql.ring[slot].due, params: age, row: func([][]byte) error { due = true; return nil }},
	})
	if err != nil {
		return 0, err
	}
	if !due {
		return 0, pipeline(ctx, pg, []statement{{sql: "ROLLBACK"}})
	}
	return max(removed, 1), pipeline(ctx, pg, []statement{{sql: s.sql.ring[slot].truncate}, commit})
}

// ringQueries are the statements about one part of the history.
type ringQueries struct{ size, lock, due, truncate string }

func newRingQueries(c Config) (out [8]ringQueries) {
	for slot := range out {
		part := c.expand("{{delivered_" + strconv.Itoa(slot) + "}}")
		out[slot] = ringQueries{
			size:     fmt.Sprintf(queryRingSize, literal(part)),
			lock:     fmt.Sprintf(queryRingLock, part),
			due:      fmt.Sprintf(c.expand(queryRingDue), slot),
			truncate: fmt.Sprintf(queryRingTruncate, part),
		}
	}
	return out
}

func (s *Store) keepDead(ctx context.Context) (relay.Kept, error) {
	if s.cfg.DeadRetention <= 0 {
		return relay.Kept{}, nil
	}
	var removed int
	err := s.run(ctx, nil, statement{
		sql: s.sql.pruneDead, params: []param{int8Param(s.cfg.DeadRetention.Microseconds()), int4Param(keepBatch)}, affected: &removed,
	})
	return relay.Kept{Removed: int64(removed), More: removed == keepBatch}, err
}

// keepLeases removes lease rows that nobody has renewed for an hour of this
// process's clock, and frees lanes whose relay has no lease row.
func (s *Store) keepLeases(ctx context.Context) error {
	var rows []relay.Member
	err := s.run(ctx, nil,
		statement{sql: s.sql.allLanes},
		statement{sql: s.sql.orphanLanes},
		statement{sql: s.sql.beats, row: func(v [][]byte) error {
			rows = append(rows, relay.Member{
				Fence: relay.Fence{Instance: string(v[0]), Epoch: int8Value(v[1])}, Beat: int8Value(v[2]),
			})
			return nil
		}})
	if err != nil {
		return err
	}
	s.forgetBeats(rows)
	for _, m := range s.unchanged(rows, goneAge) {
		if err := s.end(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// forgetBeats drops what is remembered of lease rows that are gone.
func (s *Store) forgetBeats(rows []relay.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := make(map[string]bool, len(rows))
	for _, m := range rows {
		live[m.Instance] = true
	}
	for instance := range s.beats {
		if !live[instance] {
			delete(s.beats, instance)
		}
	}
}
