package orm

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/postrider/postrider/outbox"
)

// PlaceSQL uses database/sql: a *sql.Tx is a transaction as it is.
func PlaceSQL(ctx context.Context, db *sql.DB, w *outbox.Writer, o Order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, cents) VALUES ($1, $2)`, o.ID, o.Cents); err != nil {
		return err
	}
	event, err := o.placed()
	if err != nil {
		return err
	}
	if err := w.Write(ctx, tx, event); err != nil {
		return err
	}
	return tx.Commit()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
