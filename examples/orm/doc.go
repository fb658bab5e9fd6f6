// Package orm shows how each of the usual database libraries writes an event in
// the transaction of its change: one file per library, one function in each,
// the same business row. Copy the function that is yours.
//
// The one question is where a library keeps its transaction:
//
//	database/sql, sqlx, sqlc   the *sql.Tx itself
//	pgx                        outbox.Pgx(tx)
//	gorm                       tx.Statement.ConnPool, inside Transaction
//	bun                        tx.Tx, never the bun.Tx around it
//	ent                        the driver's transaction, or the generated Tx
package orm

import "github.com/postrider/postrider/outbox"

// Order is the business row.
type Order struct {
	ID    int64 `json:"id"`
	Cents int64 `json:"cents"`
}

// CreateTable makes the table of orders, in every dialect.
const CreateTable = `CREATE TABLE orders (id bigint PRIMARY KEY, cents bigint NOT NULL CHECK (cents >= 0))`

// placed is the event of an order. The key is the order's id: the events of one
// order stay in their order.
func (o Order) placed() (outbox.Event, error) {
	return outbox.JSON("orders", itoa(o.ID), "order.placed", o)
}
