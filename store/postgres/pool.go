package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// newPool makes the pool without connecting.
//
// A password that is rotated in a file reaches the next connection: the string
// is asked for again in BeforeConnect, and everything that names the server and
// the login is taken from it.
func newPool(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	url, err := c.url(ctx)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", err)
	}
	pc, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("connection string: %w", redact(err))
	}
	c.prepare(&pc.ConnConfig.Config)
	// Statements are unnamed everywhere; this is for the few calls that go
	// through pgx itself.
	pc.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pc.ConnConfig.StatementCacheCapacity = 0
	pc.ConnConfig.DescriptionCacheCapacity = 0
	pc.MaxConns = int32(c.MaxConns)
	pc.MinConns = 0
	pc.MaxConnIdleTime = 5 * time.Minute
	// A ping before a query is a second round trip; a broken connection is
	// reported by the query itself.
	pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	if c.URLFunc != nil {
		pc.BeforeConnect = func(ctx context.Context, cc *pgx.ConnConfig) error {
			url, err := c.URLFunc(ctx)
			if err != nil {
				return fmt.Errorf("connection string: %w", err)
			}
			fresh, err := pgconn.ParseConfig(url)
			if err != nil {
				return fmt.Errorf("connection string: %w", redact(err))
			}
			c.prepare(fresh)
			cc.Config = *fresh
			return nil
		}
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc)
	if err != nil {
		return nil, fmt.Errorf("connection pool: %w", redact(err))
	}
	return pool, nil
}

// prepare sets what every connection of the store has.
func (c Config) prepare(cc *pgconn.Config) {
	if cc.RuntimeParams == nil {
		cc.RuntimeParams = map[string]string{}
	}
	if cc.RuntimeParams["application_name"] == "" {
		cc.RuntimeParams["application_name"] = c.ApplicationName
	}
	if cc.ConnectTimeout == 0 || cc.ConnectTimeout > c.ConnectTimeout {
		cc.ConnectTimeout = c.ConnectTimeout
	}
}

func (c Config) url(ctx context.Context) (string, error) {
	if c.URLFunc != nil {
		return c.URLFunc(ctx)
	}
	return c.URL, nil
}

// direct returns the connection string for LISTEN.
func (c Config) direct(ctx context.Context) (string, error) {
	if c.DirectURLFunc != nil {
		return c.DirectURLFunc(ctx)
	}
	if c.DirectURL != "" {
		return c.DirectURL, nil
	}
	return c.url(ctx)
}

// acquire waits for a connection for a bounded time: with every connection
// stuck, a method must fail and not wait for ever.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ConnectTimeout)
	defer cancel()
	pool := s.pool.Load()
	if pool == nil {
		return nil, errNotOpen
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connection: %w", redact(err))
	}
	return conn, nil
}

// release gives a connection back after a method that ended with err. If the
// server can no longer be trusted to be the primary (it is read-only, in
// recovery, shutting down), all pooled connections go: after a failover they may
// all be of the old one, and the next will resolve the name again.
func (s *Store) release(conn *pgxpool.Conn, err error) {
	pg := conn.Conn().PgConn()
	if err != nil && !pg.IsClosed() && pg.TxStatus() != 'I' {
		s.rollback(pg)
	}
	if isStale(err) {
		closeNow(pg)
		conn.Release()
		if pool := s.pool.Load(); pool != nil {
			pool.Reset()
		}
		return
	}
	conn.Release()
}

// rollback ends a failed transaction, so that the connection can be kept.
func (s *Store) rollback(pg *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := pg.Exec(ctx, "ROLLBACK").ReadAll(); err != nil {
		closeNow(pg)
	}
}

// closeNow closes a connection without waiting for a server that is gone.
func closeNow(pg *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = pg.Close(ctx)
}
