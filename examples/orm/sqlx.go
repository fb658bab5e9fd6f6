package orm

import (
	"context"

	"github.com/jmoiron/sqlx"

	"github.com/postrider/postrider/outbox"
)

// PlaceSQLX uses sqlx: a *sqlx.Tx has the methods of the *sql.Tx inside.
func PlaceSQLX(ctx context.Context, db *sqlx.DB, w *outbox.Writer, o Order) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.NamedExecContext(ctx, `INSERT INTO orders (id, cents) VALUES (:id, :cents)`, o); err != nil {
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
