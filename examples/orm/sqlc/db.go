// Package sqlc has the shape of the code that sqlc generates: queries run on
// whatever DBTX they are given.
package sqlc

import (
	"context"
	"database/sql"
)

// DBTX is what queries run on: a pool or a transaction.
type DBTX interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

// New returns queries that run on db.
func New(db DBTX) *Queries { return &Queries{db} }

// Queries are the queries of the application.
type Queries struct{ db DBTX }

// WithTx returns the queries in a transaction.
func (q *Queries) WithTx(tx *sql.Tx) *Queries { return &Queries{tx} }

const createOrder = `-- name: CreateOrder :exec
INSERT INTO orders (id, cents) VALUES ($1, $2)`

// CreateOrderParams are the arguments of CreateOrder.
type CreateOrderParams struct{ ID, Cents int64 }

// CreateOrder inserts an order.
func (q *Queries) CreateOrder(ctx context.Context, arg CreateOrderParams) error {
	_, err := q.db.ExecContext(ctx, createOrder, arg.ID, arg.Cents)
	return err
}
