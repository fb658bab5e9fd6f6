package sqlite

import (
	"context"
	"database/sql"
)

// Promote implements [relay.Store].
//
// The rows are inserted anew, not renumbered: AUTOINCREMENT does not notice an
// id that an UPDATE made, and would give it to the next event as well.
func (s *Store) Promote(ctx context.Context, limit int) (int, error) {
	// The look ahead takes no lock: most calls find nothing.
	due, err := s.promotable(ctx, limit)
	if err != nil || len(due) == 0 {
		return 0, s.explain("promote scheduled events of outbox", err)
	}
	var n int
	err = s.write(ctx, true, func(tx *sql.Tx) error {
		ids, err := readInts(ctx, tx, s.sql(selectScheduled), limit)
		if n = len(ids); err != nil || n == 0 {
			return err
		}
		list := intList(ids)
		if _, err := tx.ExecContext(ctx, s.sql(insertPromoted), list); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, s.sql(deleteRows), list)
		return err
	})
	if err != nil {
		return 0, s.explain("promote scheduled events of outbox", err)
	}
	return n, nil
}

func (s *Store) promotable(ctx context.Context, limit int) (ids []int64, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		ids, err = readInts(ctx, tx, s.sql(selectScheduled), min(limit, 1))
		return err
	})
	return ids, err
}
