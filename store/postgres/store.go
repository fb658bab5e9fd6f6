package postgres

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Store is a relay.Store of one outbox in PostgreSQL, with leases, a doorbell,
// competing claims and a report. Safe for concurrent use.
type Store struct {
	cfg  Config
	sql  queries
	pool atomic.Pointer[pgxpool.Pool]
	// opened is what Open learned; nil until it succeeded.
	opened atomic.Pointer[opened]

	// unnamed says that prepared statements do not last here.
	unnamed atomic.Bool

	mu     sync.Mutex
	closed bool
	// beats are the lease rows that Keep and Join have met, by instance.
	beats map[string]seenBeat

	proof proof
}

// opened is what Open learned about the server.
type opened struct {
	fetch [8]string
	// table is the outbox's oid, which names the doorbell's channel.
	table uint32
	// bell says that the doorbell may be armed.
	bell bool
	// noBell says why not.
	noBell string
	// utf8 says that the database takes every text that we may write.
	utf8 bool
}

var (
	_ relay.Store    = (*Store)(nil)
	_ relay.Leaser   = (*Store)(nil)
	_ relay.Waker    = (*Store)(nil)
	_ relay.Claimer  = (*Store)(nil)
	_ relay.Reporter = (*Store)(nil)
	_ relay.Floorer  = (*Store)(nil)
)

// New makes a Store. It connects to nothing; Open does. An error is
// [relay.Misconfigured] and names every bad field.
func New(c Config) (*Store, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	return &Store{cfg: c, sql: newQueries(c), beats: map[string]seenBeat{}}, nil
}

// Close implements relay.Store. Methods that are under way keep their
// connection until they end.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.opened.Store(nil)
	if pool := s.pool.Swap(nil); pool != nil {
		// pgxpool's Close waits for connections that are in use; Close of a store
		// waits for nothing.
		go pool.Close()
	}
	return nil
}

// connect makes the pool unless there is one.
func (s *Store) connect(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errNotOpen
	}
	if s.pool.Load() != nil {
		return nil
	}
	pool, err := newPool(ctx, s.cfg)
	if err != nil {
		return err
	}
	s.pool.Store(pool)
	return nil
}

// distrust discards the pooled connections: the server is not the primary.
func (s *Store) distrust() {
	if pool := s.pool.Load(); pool != nil {
		pool.Reset()
	}
}

// expand fills the names of the tables into a statement.
func (c Config) expand(sql string) string { return c.Names.Expand(outbox.Postgres, sql) }

// literal quotes a string as SQL does.
func literal(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
