package memory

import (
	"errors"
	"time"

	"github.com/postrider/postrider/relay"
)

// Tx is a writer's transaction. It is not safe for concurrent use; any number
// of transactions may be open at once.
type Tx struct {
	d    *Database
	rows []*record
	ring bool
	done bool
}

// ErrTxDone is returned by Commit of a transaction that has ended.
var ErrTxDone = errors.New("transaction has ended")

// Begin starts a transaction.
func (d *Database) Begin() *Tx { return &Tx{d: d} }

// Insert writes events, as an application does. Of each row it reads what an
// application may set; ID, Created, Queued, Generation and the relay's columns
// are the database's. A zero EventID gets one. It returns the rows as they
// lie in the table.
func (tx *Tx) Insert(rows ...relay.Row) []relay.Row {
	d := tx.d
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.open[tx] = struct{}{}
	out := make([]relay.Row, len(rows))
	for i, row := range rows {
		row.ID = d.tables.draw()
		row.Created, row.Queued = now, now
		row.Generation, row.Attempts, row.LastError = 0, 0, ""
		if row.EventID == ([16]byte{}) {
			row.EventID = d.eventID()
		}
		r := &record{Row: row}
		r.Row = r.copy()
		tx.rows = append(tx.rows, r)
		out[i] = row
	}
	tx.ring = tx.ring || now.Before(d.armed)
	return out
}

// Commit makes the events visible.
func (tx *Tx) Commit() error {
	if tx.done {
		return ErrTxDone
	}
	tx.done = true
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	delete(tx.d.open, tx)
	for _, r := range tx.rows {
		tx.d.tables.add(r)
	}
	if tx.ring {
		tx.d.ring()
	}
	return nil
}

// Rollback drops the events; their ids are not given out again. It does
// nothing after Commit.
func (tx *Tx) Rollback() {
	tx.done = true
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	delete(tx.d.open, tx)
}

// Insert writes and commits events in a transaction of their own.
func (d *Database) Insert(rows ...relay.Row) []relay.Row {
	tx := d.Begin()
	out := tx.Insert(rows...)
	_ = tx.Commit() // cannot fail: it is the first
	return out
}
