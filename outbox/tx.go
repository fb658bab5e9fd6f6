package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// Tx is an open transaction of the application. *sql.Tx is one as it is; so are
// the transactions of sqlx, gorm's ConnPool inside a transaction and bun's
// tx.Tx. [Pgx] makes one of a pgx transaction.
//
// Commit and Rollback are in the interface so that a pool or a connection does
// not compile where a transaction belongs. Write calls neither.
//
// Do not pass a bun.Tx itself: its ExecContext formats the query on its own and
// drops the arguments.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	Commit() error
	Rollback() error
}

// Pgx makes a Tx of a pgx transaction (pgx.Tx, *pgxpool.Tx) without importing
// pgx. T is inferred.
func Pgx[T interface{ RowsAffected() int64 }](tx interface {
	Exec(ctx context.Context, query string, args ...any) (T, error)
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
},
) Tx {
	if tx == nil {
		return nil
	}
	return TxFunc(func(ctx context.Context, query string, args ...any) (int64, error) {
		tag, err := tx.Exec(ctx, query, args...)
		if err != nil {
			return 0, err
		}
		return tag.RowsAffected(), nil
	})
}

// TxFunc is the escape for code that hides its transaction: a function that
// runs a statement in it and returns the number of affected rows, or -1 where
// that is not known. Whoever writes one promises that it runs inside the
// transaction of the change; nothing can check it.
type TxFunc func(ctx context.Context, query string, args ...any) (rows int64, err error)

// ExecContext runs the statement by calling f.
func (f TxFunc) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	rows, err := f(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(rows), nil
}

var errNotOwned = errors.New("the transaction is ended by the code that began it")

// Commit always returns an error: the transaction is not f's to end.
func (f TxFunc) Commit() error { return errNotOwned }

// Rollback always returns an error: the transaction is not f's to end.
func (f TxFunc) Rollback() error { return errNotOwned }
