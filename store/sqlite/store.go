package sqlite

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Store is an outbox in a SQLite file. It is safe for concurrent use. Besides
// [relay.Store] it is a [relay.Leaser] of one lane, a [relay.Waker], a
// [relay.Claimer] and a [relay.Reporter].
type Store struct {
	cfg      Config
	expanded sync.Map // SQL text with the names in double braces → with the real ones

	mu      sync.Mutex
	pool    *pool // nil before the first use and after Close
	closed  bool
	files   int   // counts the files and the histories that were met: see identity.go
	highest int64 // the outbox's sequence, as last seen

	topics topicCursor // where a fetch that could not visit all topics goes on
	bell   bell
	gone   watch // beats of the relays, for Join and Keep

	retries atomic.Int64
}

var (
	_ relay.Store    = (*Store)(nil)
	_ relay.Leaser   = (*Store)(nil)
	_ relay.Waker    = (*Store)(nil)
	_ relay.Claimer  = (*Store)(nil)
	_ relay.Reporter = (*Store)(nil)
)

// New makes a store. It does not touch the file.
func New(cfg Config) (*Store, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, files: 1}
	s.bell.armed = make(chan struct{}, 1)
	s.gone.seen = map[string]sighting{}
	return s, nil
}

// Retries returns how many transactions were begun anew because the file was
// locked by another process for longer than the busy timeout.
func (s *Store) Retries() int64 { return s.retries.Load() }

// Close closes the file. Calls in progress fail; it is safe to call twice.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.pool == nil {
		return nil
	}
	err := s.pool.close()
	s.pool = nil
	return err
}

var errClosed = errors.New("sqlite store closed")

// sql fills the names of the tables into a statement.
func (s *Store) sql(text string) string {
	if done, ok := s.expanded.Load(text); ok {
		return done.(string)
	}
	done := s.cfg.Names.Expand(outbox.SQLite, text)
	s.expanded.Store(text, done)
	return done
}

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// ceilMillis rounds up: an event must not fall due before its time.
func ceilMillis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
