package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider/relay"
)

// A closed key is read by itself. What may be sent now are its held rows in
// order, up to the first that must wait: a blocked one, one whose retry is not
// due, or the lowest row of the key that is not held yet (another relay may
// just be sending it, and what follows must not pass it).
//
// Events without a key promise no order: each of them is a head, and one that
// waits stops no other.

// readBytes bounds the payloads of one ReadKeys.
const readBytes = 16 << 20

// budget is what was used of readBytes. The first row always fits.
type budget struct {
	used int
	some bool
}

func (b *budget) fits(r relay.Row) bool {
	if b.some && b.used+len(r.Payload) > readBytes {
		return false
	}
	b.some = true
	b.used += len(r.Payload)
	return true
}

// heldRow is a row with its state.
type heldRow struct {
	relay.Row
	held    relay.Held
	retryAt int64
}

func scanHeld(rows *sql.Rows) (h heldRow, err error) {
	var held sql.NullString
	h.Row, err = scanRow(rows, &held, &h.retryAt)
	h.held = relay.Held(held.String)
	return h, err
}

// ReadKeys implements [relay.Store].
func (s *Store) ReadKeys(ctx context.Context, keys []relay.Key, limit int) ([]relay.KeyRead, error) {
	var out []relay.KeyRead
	err := s.read(ctx, func(tx *sql.Tx) error {
		out = make([]relay.KeyRead, len(keys))
		var ms int64
		if err := tx.QueryRowContext(ctx, selectNow).Scan(&ms); err != nil {
			return err
		}
		highest := map[string]int64{} // by topic
		var left budget
		for i, k := range keys {
			if err := s.readKey(ctx, tx, k, limit, ms, &left, &out[i]); err != nil {
				return err
			}
			if n := len(out[i].Rows); n > 0 && k.Key != "" {
				highest[k.Topic] = max(highest[k.Topic], out[i].Rows[n-1].ID.Int())
			}
		}
		return s.stopAtUnheld(ctx, tx, highest, out)
	})
	return out, s.explain("read closed keys of outbox", err)
}

// readKey reads the held rows of one key. It stops reading at the bound, so a
// key with a million rows costs no more than one with limit.
func (s *Store) readKey(ctx context.Context, tx *sql.Tx, k relay.Key, limit int, ms int64, left *budget, out *relay.KeyRead) error {
	*out = relay.KeyRead{Key: k, Open: true}
	query, args := selectKey, []any{k.Topic, k.Key}
	if k.Key == "" {
		query, args = selectKeyless, []any{k.Topic, ms, ms + s.cfg.MaxBackoff.Milliseconds()}
	}
	rows, err := tx.QueryContext(ctx, s.sql(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		out.Open = false
		if len(out.Rows) == limit {
			out.More = true
			break
		}
		h, err := scanHeld(rows)
		if err != nil {
			return err
		}
		if wait := s.wait(h, ms); h.held == relay.HeldBlocked || wait > 0 {
			if len(out.Rows) == 0 {
				out.Blocked, out.Wait = h.held == relay.HeldBlocked, time.Duration(wait)*time.Millisecond
			}
			break
		}
		if !left.fits(h.Row) {
			out.More = true
			break
		}
		out.Rows = append(out.Rows, h.Row)
	}
	if err := rows.Err(); err != nil || k.Key != "" || !out.Open {
		return err
	}
	var held int
	var retry sql.NullInt64
	err = tx.QueryRowContext(ctx, s.sql(selectKeylessState), k.Topic).Scan(&held, &retry)
	out.Open, out.Blocked = held == 0, held > 0 && !retry.Valid
	if retry.Valid {
		out.Wait = time.Duration(max(retry.Int64-ms, 1)) * time.Millisecond
	}
	return err
}

// wait is how many milliseconds a held row still waits.
func (s *Store) wait(h heldRow, ms int64) int64 {
	if h.held != relay.HeldRetry || h.retryAt <= ms || h.retryAt > ms+s.cfg.MaxBackoff.Milliseconds() {
		return 0
	}
	return h.retryAt - ms
}

// stopAtUnheld cuts each key before its lowest row that is not held. One look
// per topic serves all keys: key by key it would pass over the rows in flight
// once for each.
func (s *Store) stopAtUnheld(ctx context.Context, tx *sql.Tx, highest map[string]int64, out []relay.KeyRead) error {
	for topic, id := range highest {
		lowest, err := s.unheld(ctx, tx, topic, id)
		if err != nil {
			return err
		}
		for i := range out {
			bound, ok := lowest[out[i].Key.Key]
			if !ok || out[i].Topic != topic || out[i].Key.Key == "" {
				continue
			}
			for n, row := range out[i].Rows {
				if row.ID.Int() > bound {
					out[i].Rows, out[i].More = out[i].Rows[:n], true
					break
				}
			}
		}
	}
	return nil
}

// unheld returns the lowest row that is not held of each key of a topic, as
// far as there is one up to the given id.
func (s *Store) unheld(ctx context.Context, tx *sql.Tx, topic string, upTo int64) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, s.sql(selectUnheld), topic, upTo)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	lowest := map[string]int64{}
	for rows.Next() {
		var key string
		var id int64
		if err := rows.Scan(&key, &id); err != nil {
			return nil, err
		}
		lowest[key] = id
	}
	return lowest, rows.Err()
}

// HeldKeys implements [relay.Store].
func (s *Store) HeldKeys(ctx context.Context, after relay.Key, limit int) (keys []relay.Key, more bool, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		var ms int64
		if err := tx.QueryRowContext(ctx, selectNow).Scan(&ms); err != nil {
			return err
		}
		args := []any{after.Topic, after.Key, ms, ms + s.cfg.MaxBackoff.Milliseconds(), limit + 1}
		keys, err = collect(ctx, tx, s.sql(selectHeldKeys), args, func(rows *sql.Rows) (k relay.Key, err error) {
			return k, rows.Scan(&k.Topic, &k.Key)
		})
		return err
	})
	if err != nil {
		return nil, false, s.explain("list closed keys of outbox", err)
	}
	if more = len(keys) > limit; more {
		keys = keys[:limit]
	}
	return keys, more, nil
}
