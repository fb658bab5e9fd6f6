package orm

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
)

// PlacePgx uses pgx: outbox.Pgx makes a transaction of a pgx.Tx.
func PlacePgx(ctx context.Context, pool *pgxpool.Pool, w *outbox.Writer, o Order) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id, cents) VALUES ($1, $2)`, o.ID, o.Cents); err != nil {
			return err
		}
		event, err := o.placed()
		if err != nil {
			return err
		}
		return w.Write(ctx, outbox.Pgx(tx), event)
	})
}
