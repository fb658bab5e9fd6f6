package orm

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/examples/orm/sqlc"
	"github.com/postrider/postrider/outbox"
)

// PlaceSQLC uses sqlc: the transaction that WithTx gets goes to Write too. With
// sql_package: pgx/v5 it is a pgx.Tx, and outbox.Pgx(tx) goes to Write.
func PlaceSQLC(ctx context.Context, db *sql.DB, w *outbox.Writer, o Order) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := sqlc.New(db).WithTx(tx).CreateOrder(ctx, sqlc.CreateOrderParams{ID: o.ID, Cents: o.Cents}); err != nil {
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
