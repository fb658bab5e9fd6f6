package orm

import (
	"context"

	"github.com/uptrace/bun"

	"github.com/postrider/postrider/outbox"
)

// PlaceBun uses bun. It passes tx.Tx, the *sql.Tx: bun's own ExecContext
// formats the query by itself and drops the arguments.
func PlaceBun(ctx context.Context, db *bun.DB, w *outbox.Writer, o Order) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&o).Exec(ctx); err != nil {
			return err
		}
		event, err := o.placed()
		if err != nil {
			return err
		}
		return w.Write(ctx, tx.Tx, event)
	})
}
