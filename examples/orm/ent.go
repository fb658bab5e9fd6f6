package orm

import (
	"context"
	"fmt"

	entsql "entgo.io/ent/dialect/sql"

	"github.com/postrider/postrider/outbox"
)

// PlaceEnt uses ent's driver, as generated clients do. With a generated client
// that has the feature sql/execquery (ent generate --feature sql/execquery) the
// generated *ent.Tx is a transaction as it is: w.Write(ctx, tx, event).
func PlaceEnt(ctx context.Context, driver *entsql.Driver, w *outbox.Writer, o Order) error {
	began, err := driver.Tx(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = began.Rollback() }()
	insert, args := entsql.Dialect(driver.Dialect()).Insert("orders").Columns("id", "cents").Values(o.ID, o.Cents).Query()
	if err := began.Exec(ctx, insert, args, nil); err != nil {
		return err
	}
	event, err := o.placed()
	if err != nil {
		return err
	}
	tx, ok := began.(outbox.Tx)
	if !ok {
		return fmt.Errorf("ent: the transaction is a %T, without ExecContext", began)
	}
	if err := w.Write(ctx, tx, event); err != nil {
		return err
	}
	return began.Commit()
}
