package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/relay"
)

// keepRows is how many rows one call removes of a kind: a few milliseconds of
// the write lock. Whoever has more to remove calls again, and writers of the
// application come in between.
const keepRows = 1000

// Keep implements [relay.Store]. It removes what the history and the dead
// letters hold beyond their retention; the outbox itself is not named in any
// of its statements.
func (s *Store) Keep(ctx context.Context) (relay.Kept, error) {
	var kept relay.Kept
	retention := max(s.cfg.Retention, 0).Milliseconds() // NoRetention empties it
	deadRetention := s.cfg.DeadRetention.Milliseconds()
	var work bool
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, s.sql(selectKeep), retention, deadRetention).Scan(&work)
	})
	if err == nil && work {
		err = s.write(ctx, false, func(tx *sql.Tx) error {
			kept = relay.Kept{}
			if err := remove(ctx, tx, &kept, s.sql(deleteDelivered), retention); err != nil {
				return err
			}
			if deadRetention == 0 {
				return nil
			}
			return remove(ctx, tx, &kept, s.sql(deleteDead), deadRetention)
		})
	}
	if err == nil {
		err = s.removeGone(ctx, &kept)
	}
	if err != nil {
		return relay.Kept{}, s.explain("housekeeping of outbox", err)
	}
	return kept, nil
}

func remove(ctx context.Context, tx *sql.Tx, kept *relay.Kept, query string, retention int64) error {
	result, err := tx.ExecContext(ctx, query, retention, keepRows)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	kept.Removed += n
	kept.More = kept.More || n == keepRows
	return err
}
