package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/postrider/postrider/relay"
)

// Competing claims on SQLite are a lease on the rows. Elsewhere a claim is an
// open transaction; here that is the file's write lock, and an application that
// wrote 1,739 rows a second wrote one while a claim was open.
//
//	                 claim                      settle
//	due, not held ─────────► held = retry,    ─────────► delivered, dead, marked,
//	or retry due             retry_at = now              or as it was before
//	   ▲                     + lease
//	   └──────────────────── the lease ran out
//
// The lease is twice Config.PublishTimeout, publish has one of them, and
// settling the other. retry_at names the claim: a claim that outlived its lease
// finds another time there and touches nothing. A crash leaves the rows held
// until the lease runs out, with their attempts as they were.

// Compete implements [relay.Claimer]. The context that publish is given ends
// after Config.PublishTimeout.
func (s *Store) Compete(ctx context.Context, limit int, publish func(context.Context, []relay.Row) relay.Settlement) (int, error) {
	c, err := s.claim(ctx, limit)
	if err != nil || len(c.rows) == 0 {
		return 0, s.explain("claim events of outbox", err)
	}
	rows := make([]relay.Row, len(c.rows))
	for i, h := range c.rows {
		rows[i] = h.Row
	}
	st := s.publish(ctx, rows, publish)

	// What was accepted is settled also when ctx is done by now.
	settleCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.PublishTimeout)
	defer cancel()
	var kept int
	_, err = s.settle(settleCtx, st, func(ctx context.Context, tx *sql.Tx) (relay.Settlement, error) {
		own, err := s.restore(ctx, tx, c)
		kept = len(own)
		return limitTo(st, own), err
	})
	if err == nil && kept < len(c.rows) {
		err = fmt.Errorf("%d of %d rows: the claim ran out before they were settled", len(c.rows)-kept, len(c.rows))
	}
	return len(c.rows), s.explain("settle claimed events of outbox", err)
}

func (s *Store) publish(ctx context.Context, rows []relay.Row, publish func(context.Context, []relay.Row) relay.Settlement) relay.Settlement {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.PublishTimeout)
	defer cancel()
	return publish(ctx, rows)
}

// claim is a set of rows under lease.
type claim struct {
	rows []heldRow // as they were before
	list string    // their ids
	till int64     // their retry_at
}

// claim looks for candidates without a lock and takes them under it, so that a
// long table is not read while the application's writers wait. Where another
// relay took them in between, it looks again.
func (s *Store) claim(ctx context.Context, limit int) (claim, error) {
	for range tries {
		var c claim
		var candidates []int64
		err := s.read(ctx, func(tx *sql.Tx) (err error) {
			ms, far, err := s.clock(ctx, tx)
			if err != nil {
				return err
			}
			candidates, err = readInts(ctx, tx, s.sql(selectCandidates), limit, ms, far)
			return err
		})
		if err != nil || len(candidates) == 0 {
			return claim{}, err
		}
		err = s.write(ctx, true, func(tx *sql.Tx) error {
			c = claim{}
			ms, far, err := s.clock(ctx, tx)
			if err != nil {
				return err
			}
			c.rows, err = collect(ctx, tx, s.sql(selectClaim), []any{intList(candidates), ms, far}, scanHeld)
			if err != nil || len(c.rows) == 0 {
				return err
			}
			ids := make([]int64, len(c.rows))
			for i, h := range c.rows {
				ids[i] = h.ID.Int()
			}
			c.list, c.till = intList(ids), ms+2*ceilMillis(s.cfg.PublishTimeout)
			_, err = execute(ctx, tx, s.sql(updateClaimed), c.list, c.till)
			return err
		})
		if err != nil || len(c.rows) > 0 {
			return c, err
		}
	}
	return claim{}, nil
}

// clock returns now, and the time from which on a retry counts as due because
// no back-off reaches so far.
func (s *Store) clock(ctx context.Context, tx *sql.Tx) (ms, far int64, err error) {
	err = tx.QueryRowContext(ctx, selectNow).Scan(&ms)
	return ms, ms + s.cfg.MaxBackoff.Milliseconds(), err
}

// restore gives the rows that are still under this claim the state they had
// before, and returns their ids, ascending.
func (s *Store) restore(ctx context.Context, tx *sql.Tx, c claim) ([]int64, error) {
	own, err := readInts(ctx, tx, s.sql(selectClaimed), c.list, c.till)
	if err != nil {
		return nil, err
	}
	stmt, err := tx.PrepareContext(ctx, s.sql(updateRestore))
	if err != nil {
		return nil, err
	}
	defer stmt.Close() //nolint:errcheck // ends with the transaction
	slices.Sort(own)
	for _, h := range c.rows {
		id := h.ID.Int()
		if _, ok := slices.BinarySearch(own, id); !ok {
			continue
		}
		var held, retryAt any
		if h.held != "" {
			held, retryAt = string(h.held), h.retryAt
		}
		if _, err := stmt.ExecContext(ctx, id, held, retryAt); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// limitTo leaves of a settlement what is about the given rows.
func limitTo(st relay.Settlement, own []int64) relay.Settlement {
	foreign := func(ref relay.Ref) bool {
		_, ok := slices.BinarySearch(own, ref.ID.Int())
		return !ok
	}
	st.Delivered = slices.DeleteFunc(slices.Clone(st.Delivered), foreign)
	st.Marks = slices.DeleteFunc(slices.Clone(st.Marks), func(m relay.Mark) bool { return foreign(m.Ref) })
	st.Dead = slices.DeleteFunc(slices.Clone(st.Dead), func(d relay.Death) bool { return foreign(d.Ref) })
	return st
}
