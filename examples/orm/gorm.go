package orm

import (
	"context"
	"fmt"

	"gorm.io/gorm"

	"github.com/postrider/postrider/outbox"
)

// PlaceGorm uses gorm.
func PlaceGorm(ctx context.Context, db *gorm.DB, w *outbox.Writer, o Order) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&o).Error; err != nil {
			return err
		}
		event, err := o.placed()
		if err != nil {
			return err
		}
		open, err := gormTx(tx)
		if err != nil {
			return err
		}
		return w.Write(ctx, open, event)
	})
}

// gormTx is gorm's transaction. Outside Transaction the pool is a *sql.DB, which
// is no outbox.Tx, so a forgotten transaction is an error here and not a dual
// write. With PrepareStmt it is gorm's own wrapper, which works as well.
func gormTx(tx *gorm.DB) (outbox.Tx, error) {
	open, ok := tx.Statement.ConnPool.(outbox.Tx)
	if !ok {
		return nil, fmt.Errorf("gorm: no transaction is open, the pool is a %T", tx.Statement.ConnPool)
	}
	return open, nil
}
