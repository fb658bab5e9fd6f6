package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// A settlement is one transaction, under the write lock from its first
// statement:
//
//	read the named rows ─► sort out those that are not as named
//	delivered: copy to the history, delete     dead: copy to the dead letters, delete
//	marks: update
//
// Reading first is what guards: an id may have come back with another event
// after a restore. Nothing can come between the read and the writes, because
// nobody else can write. (DELETE … RETURNING cannot feed an INSERT in SQLite.)
//
// 2,000 rows of 300 bytes take about 11 ms, of which a writer of the
// application may have to wait.

// errHistory is a failure of the history alone; the settlement is repeated
// without it. Keeping copies must never stop the delivery.
type errHistory struct{ error }

func (e errHistory) Unwrap() error { return e.error }

// Settle implements [relay.Store]. Where the lease of st.Fence is lost, the
// dead letters are left as they are and count as missed; the rest is settled.
func (s *Store) Settle(ctx context.Context, st relay.Settlement) (relay.Settled, error) {
	if len(st.Delivered)+len(st.Marks)+len(st.Dead) == 0 {
		return relay.Settled{}, nil
	}
	out, err := s.settle(ctx, st, func(context.Context, *sql.Tx) (relay.Settlement, error) { return st, nil })
	return out, s.explain("settle events of outbox", err)
}

// settle settles what only returns, which is called inside the transaction. st
// is everything that it may return.
func (s *Store) settle(ctx context.Context, st relay.Settlement, only func(context.Context, *sql.Tx) (relay.Settlement, error)) (relay.Settled, error) {
	durable := s.cfg.DurableSettle || len(st.Marks)+len(st.Dead) > 0
	var out relay.Settled
	try := func(history bool) error {
		return s.write(ctx, durable, func(tx *sql.Tx) error {
			st, err := only(ctx, tx)
			if err != nil {
				return err
			}
			out, err = s.settleIn(ctx, tx, st, history)
			return err
		})
	}
	err := try(s.cfg.Retention != NoRetention)
	failed, isHistory := errors.AsType[errHistory](err)
	if isHistory {
		err = try(false)
	}
	if err != nil {
		return relay.Settled{}, err
	}
	if isHistory {
		out.History = fmt.Errorf("%w: %w", relay.ErrNoHistory, failed.error)
	}
	return out, nil
}

// settleIn settles inside the caller's transaction.
func (s *Store) settleIn(ctx context.Context, tx *sql.Tx, st relay.Settlement, history bool) (out relay.Settled, err error) {
	found, err := s.find(ctx, tx, st)
	if err != nil {
		return out, err
	}
	delivered := make([]int64, 0, len(st.Delivered))
	for _, ref := range st.Delivered {
		if found.take(ref) {
			delivered = append(delivered, ref.ID.Int())
		}
	}
	if err := s.deliver(ctx, tx, delivered, history); err != nil {
		return out, err
	}
	buried, err := s.bury(ctx, tx, st, found)
	if err != nil {
		return out, err
	}
	marked, err := s.mark(ctx, tx, st.Marks, found)
	out.Missed = len(st.Delivered) - len(delivered) + len(st.Dead) - buried + len(st.Marks) - marked
	return out, err
}

// current is what a row is now.
type current struct {
	event      outbox.ID
	generation int
}

type rowsFound map[int64]current

func (f rowsFound) has(ref relay.Ref) bool {
	c, ok := f[ref.ID.Int()]
	return ok && c.event == ref.EventID && c.generation == ref.Generation
}

// take is has for a row that leaves the outbox: it is there once.
func (f rowsFound) take(ref relay.Ref) bool {
	ok := f.has(ref)
	if ok {
		delete(f, ref.ID.Int())
	}
	return ok
}

func (s *Store) find(ctx context.Context, tx *sql.Tx, st relay.Settlement) (rowsFound, error) {
	ids := make([]int64, 0, len(st.Delivered)+len(st.Marks)+len(st.Dead))
	for _, ref := range st.Delivered {
		ids = append(ids, ref.ID.Int())
	}
	for _, m := range st.Marks {
		ids = append(ids, m.ID.Int())
	}
	for _, d := range st.Dead {
		ids = append(ids, d.ID.Int())
	}
	rows, err := tx.QueryContext(ctx, s.sql(selectRefs), intList(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	found := make(rowsFound, len(ids))
	for rows.Next() {
		var id int64
		var event string
		var c current
		if err := rows.Scan(&id, &event, &c.generation); err != nil {
			return nil, err
		}
		c.event, _ = parseID(event)
		found[id] = c
	}
	return found, rows.Err()
}

func (s *Store) deliver(ctx context.Context, tx *sql.Tx, ids []int64, history bool) error {
	if len(ids) == 0 {
		return nil
	}
	list := intList(ids)
	if history {
		copyRows := insertHistory
		if s.cfg.History == HistoryHead {
			copyRows = insertHistoryHead
		}
		if _, err := tx.ExecContext(ctx, s.sql(copyRows), list); err != nil {
			if isBusy(err) || ctx.Err() != nil {
				return err
			}
			return errHistory{err}
		}
	}
	_, err := tx.ExecContext(ctx, s.sql(deleteRows), list)
	return err
}

func (s *Store) mark(ctx context.Context, tx *sql.Tx, marks []relay.Mark, found rowsFound) (done int, err error) {
	prepared := map[string]*sql.Stmt{}
	run := func(query string, args ...any) error {
		stmt := prepared[query]
		if stmt == nil {
			if stmt, err = tx.PrepareContext(ctx, s.sql(query)); err != nil {
				return err
			}
			prepared[query] = stmt // closed by the end of the transaction
		}
		_, err := stmt.ExecContext(ctx, args...)
		return err
	}
	for _, m := range marks {
		if !found.has(m.Ref) {
			continue
		}
		done++
		id, held := m.ID.Int(), string(m.Held)
		var after any // NULL
		if m.Held == relay.HeldRetry {
			after = ceilMillis(m.After)
		}
		switch {
		case m.Held == "" && m.Keep:
		case m.Held == "":
			err = run(updateTried, id, m.Attempts, nullable(sanitise(m.Error)))
		case m.Keep && m.Held == relay.HeldBehind:
			err = run(updateBehind, id)
		case m.Keep:
			err = run(updateHeld, id, held, after)
		default:
			err = run(updateMark, id, held, after, m.Attempts, nullable(sanitise(m.Error)))
		}
		if err != nil {
			return 0, err
		}
	}
	return done, nil
}

// bury moves rows to the dead letters, unless the relay has lost its lease: what
// it calls dead may be on its way through the relay that took over.
func (s *Store) bury(ctx context.Context, tx *sql.Tx, st relay.Settlement, found rowsFound) (done int, err error) {
	if len(st.Dead) == 0 {
		return 0, nil
	}
	if lost, err := s.lost(ctx, tx, st.Fence); err != nil || lost {
		return 0, err
	}
	insert, err := tx.PrepareContext(ctx, s.sql(insertDead))
	if err != nil {
		return 0, err
	}
	defer insert.Close() //nolint:errcheck // ends with the transaction
	remove, err := tx.PrepareContext(ctx, s.sql(deleteRow))
	if err != nil {
		return 0, err
	}
	defer remove.Close() //nolint:errcheck // ends with the transaction
	for _, d := range st.Dead {
		if !found.take(d.Ref) {
			continue
		}
		done++
		if _, err := insert.ExecContext(ctx, d.ID.Int(), d.Attempts, d.Class, sanitise(d.Cause)); err != nil {
			return 0, err
		}
		if _, err := remove.ExecContext(ctx, d.ID.Int()); err != nil {
			return 0, err
		}
	}
	return done, nil
}

// lost reports whether the caller's lease is another's. The zero Fence is
// nobody's and never lost.
func (s *Store) lost(ctx context.Context, tx *sql.Tx, f relay.Fence) (bool, error) {
	if f == (relay.Fence{}) {
		return false, nil
	}
	var holds bool
	err := tx.QueryRowContext(ctx, s.sql(selectFence), f.Instance, f.Epoch).Scan(&holds)
	return !holds, err
}

// maxError is the length of an error text in the tables, in bytes.
const maxError = 1000

// sanitise makes a text safe for a text column: valid UTF-8 without NUL, cut
// between characters. The relay has done so already; an error text that no
// reader can take would be found only when somebody looks for a cause.
func sanitise(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), maxError)], "\ufffd"), "\x00", "\ufffd")
	if len(text) <= maxError {
		return text
	}
	return strings.ToValidUTF8(text[:maxError], "") // a character that was cut
}

func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}
