package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// Config configures a [Database]. The zero value is fine.
type Config struct {
	// Name makes the event ids of this database differ from another's.
	Name string
	// Retention of delivered events. Default 0: for ever.
	Retention time.Duration
	// DeadRetention of dead letters. Default 0: for ever.
	DeadRetention time.Duration
	// Hook, if set, is called in each method of a Store, once before its effect
	// and once between the effect and the reply, without a lock held. An error
	// is returned to the caller in place of the reply, so one from the first
	// call means without effect and one from the second a lost reply.
	Hook func(ctx context.Context, method string, done bool) error
}

// Database is what a database server keeps. Safe for concurrent use.
type Database struct {
	cfg Config

	mu        sync.Mutex
	identity  string
	tables    tables
	events    uint64 // event ids made
	listeners map[*listener]struct{}
	armed     time.Time // the doorbell rings for inserts before it
	open      map[*Tx]struct{}
}

// Store is one client of a [Database]. It implements [relay.Store] and every
// optional interface of a store.
type Store struct {
	*Database

	mu     sync.Mutex
	closed bool
}

var (
	_ relay.Store    = (*Store)(nil)
	_ relay.Leaser   = (*Store)(nil)
	_ relay.Waker    = (*Store)(nil)
	_ relay.Claimer  = (*Store)(nil)
	_ relay.Floorer  = (*Store)(nil)
	_ relay.Reporter = (*Store)(nil)
)

// New makes an empty database and returns a store of it.
func New(cfg Config) *Store {
	d := &Database{cfg: cfg, identity: "memory/" + cfg.Name, listeners: map[*listener]struct{}{}, open: map[*Tx]struct{}{}}
	d.tables.members = map[string]*member{}
	return d.Connect()
}

// Connect returns another store of the same database, as another relay has.
func (d *Database) Connect() *Store { return &Store{Database: d} }

// MutateServer gives the server another identity, as after a failover or a
// restore. See [Database.Restore] for one that also lost commits.
func (d *Database) MutateServer(identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = identity
}

var errClosed = errors.New("memory store is closed")

// call runs the effect of one method under the database's lock, between the
// two calls of the hook.
func call[T any](ctx context.Context, s *Store, method string, effect func() (T, error)) (T, error) {
	var zero T
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return zero, errClosed
	}
	if err := s.hook(ctx, method, false); err != nil {
		return zero, err
	}
	if err := ctx.Err(); err != nil {
		return zero, fmt.Errorf("memory store: %w", err)
	}
	s.Database.mu.Lock()
	out, err := effect()
	s.Database.mu.Unlock()
	if lost := s.hook(ctx, method, true); lost != nil {
		return zero, lost
	}
	if err != nil {
		return zero, err
	}
	return out, nil
}

func (d *Database) hook(ctx context.Context, method string, done bool) error {
	if d.cfg.Hook == nil {
		return nil
	}
	return d.cfg.Hook(ctx, method, done)
}

// Open implements [relay.Store].
func (s *Store) Open(ctx context.Context) (relay.Server, error) {
	s.mu.Lock()
	s.closed = false
	s.mu.Unlock()
	return call(ctx, s, "Open", func() (relay.Server, error) {
		return relay.Server{Identity: s.identity, Describe: "memory", Schema: 1, Lanes: true}, nil
	})
}

// Fetch implements [relay.Store].
func (s *Store) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	return call(ctx, s, "Fetch", func() (relay.Fetched, error) { return s.fetch(q), nil })
}

// ReadKeys implements [relay.Store].
func (s *Store) ReadKeys(ctx context.Context, keys []relay.Key, limit int) ([]relay.KeyRead, error) {
	return call(ctx, s, "ReadKeys", func() ([]relay.KeyRead, error) {
		return s.tables.readKeys(keys, limit, time.Now()), nil
	})
}

// HeldKeys implements [relay.Store].
func (s *Store) HeldKeys(ctx context.Context, after relay.Key, limit int) ([]relay.Key, bool, error) {
	keys, err := call(ctx, s, "HeldKeys", func() ([]relay.Key, error) {
		return s.tables.orphans(after, time.Now()), nil
	})
	if len(keys) > limit {
		return keys[:limit], true, err
	}
	return keys, false, err
}

// Settle implements [relay.Store].
func (s *Store) Settle(ctx context.Context, b relay.Settlement) (relay.Settled, error) {
	return call(ctx, s, "Settle", func() (relay.Settled, error) { return s.tables.settle(b, time.Now()), nil })
}

// Promote implements [relay.Store].
func (s *Store) Promote(ctx context.Context, limit int) (int, error) {
	return call(ctx, s, "Promote", func() (int, error) { return s.tables.promote(limit, time.Now()), nil })
}

// Keep implements [relay.Store].
func (s *Store) Keep(ctx context.Context) (relay.Kept, error) {
	return call(ctx, s, "Keep", func() (relay.Kept, error) { return s.keep(time.Now()), nil })
}

// Close implements [relay.Store]. Every method but Open returns an error after
// it.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
