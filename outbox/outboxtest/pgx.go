package outboxtest

import "context"

// PgxRows are pgx's rows, as far as they are read here.
type PgxRows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close()
}

// Pgx makes a Querier of a pgx transaction, connection or pool without
// importing pgx. R is inferred.
func Pgx[R PgxRows](q interface {
	Query(ctx context.Context, query string, args ...any) (R, error)
},
) Querier[Rows] {
	return pgxQuerier[R]{q.Query}
}

type pgxQuerier[R PgxRows] struct {
	query func(ctx context.Context, query string, args ...any) (R, error)
}

func (q pgxQuerier[R]) QueryContext(ctx context.Context, query string, args ...any) (Rows, error) {
	rows, err := q.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return closing{rows}, nil
}

// closing gives Close the error that database/sql's has and pgx's has not.
type closing struct{ PgxRows }

func (c closing) Close() error {
	c.PgxRows.Close()
	return c.Err()
}
