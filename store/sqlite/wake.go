package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// How a sleeping relay notices an insert.
//
// SQLite tells a process nothing of another's commits, and a hook of one
// connection nothing of the next one's. What it has is cheap reading: the
// table's sequence, which grows with each insert and with nothing else, is one
// cached page away (7 µs). So while the bell is armed Listen looks at it every
// few milliseconds, and rings when it has grown past what the last fetch
// saw. `PRAGMA data_version` costs the same and also changes with the relay's
// own settles and renewals.
//
// While it is not armed nothing runs. An application in the same process can
// call Ring after its commits and does not wait for the next look.
type bell struct {
	sync.Mutex
	until time.Time     // armed until then
	last  time.Time     // when it last rang for an insert
	seen  int64         // the sequence as the sleeper knows it
	armed chan struct{} // tells Listen that until has changed; holds one token
	rings map[*chan struct{}]struct{}
}

// arm sets what the sleeper knows, and for how long it sleeps.
func (b *bell) arm(d time.Duration, seq int64) {
	b.Lock()
	b.seen = seq
	b.Unlock()
	b.extend(d)
}

func (b *bell) extend(d time.Duration) {
	b.Lock()
	defer b.Unlock()
	b.until = time.Now().Add(d)
	select {
	case b.armed <- struct{}{}:
	default:
	}
}

func (b *bell) disarm() {
	b.Lock()
	defer b.Unlock()
	b.until = time.Time{}
}

// ringAll rings for every listener that has not yet taken the last ring.
func (b *bell) ringAll() {
	b.Lock()
	defer b.Unlock()
	for r := range b.rings {
		select {
		case *r <- struct{}{}:
		default:
		}
	}
}

func (b *bell) add(r *chan struct{}) {
	b.Lock()
	defer b.Unlock()
	if b.rings == nil {
		b.rings = map[*chan struct{}]struct{}{}
	}
	b.rings[r] = struct{}{}
}

func (b *bell) remove(r *chan struct{}) {
	b.Lock()
	defer b.Unlock()
	delete(b.rings, r)
}

// interval is how long to wait before the next look: a fiftieth of the time
// since the last insert that was noticed, between shortest and five times that.
// Who writes often is answered fast; a timer of 5 ms alone costs a small machine
// more than the 1 % of a processor that an idle relay may take.
func (b *bell) interval(shortest time.Duration) time.Duration {
	b.Lock()
	defer b.Unlock()
	return min(max(time.Since(b.last)/50, shortest), 5*shortest)
}

// noticed takes the sequence that was just read, and reports whether it rings.
// It rings once for each arming.
func (b *bell) noticed(seq int64) bool {
	b.Lock()
	defer b.Unlock()
	if seq == b.seen || b.until.IsZero() {
		return false
	}
	b.seen, b.until, b.last = seq, time.Time{}, time.Now()
	return true
}

func (b *bell) isArmed() bool {
	b.Lock()
	defer b.Unlock()
	return time.Now().Before(b.until)
}

// Ring tells the relay in this process that rows may have come. An application
// that embeds the relay calls it after a commit; it does not block, and costs a
// fetch if nothing came.
func (s *Store) Ring() { s.bell.ringAll() }

// armFor is how long Arm arms the bell.
const armFor = time.Second

// Arm implements [relay.Waker]. It rings for what came since the last fetch
// that armed the bell or the last ring, so nothing falls between.
func (s *Store) Arm(ctx context.Context) error {
	s.bell.extend(armFor)
	return ctx.Err()
}

// Listen implements [relay.Waker]. It has a connection of its own with the one
// statement prepared: parsing it anew for each look would cost more than the
// look.
func (s *Store) Listen(ctx context.Context, ring func()) error {
	rung := make(chan struct{}, 1)
	s.bell.add(&rung)
	defer s.bell.remove(&rung)
	look, err := s.lookout(ctx)
	if err != nil {
		return s.explain("watch for new rows of outbox", err)
	}
	defer look.close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if s.bell.isArmed() {
			timer.Reset(s.bell.interval(s.cfg.WakeInterval))
			due = timer.C
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-rung:
			ring()
		case <-s.bell.armed:
			// The file is compared here and not at each look; whoever arms has
			// just fetched, and that has noticed a new file first.
			if p, err := s.connections(); err != nil || p != look.pool {
				return s.explain("watch for new rows of outbox", errors.Join(errReplaced, err))
			}
		case <-due:
			seq, err := look.sequence()
			if err != nil && !isBusy(err) {
				return s.explain("watch for new rows of outbox", err)
			}
			if err == nil && s.bell.noticed(seq) {
				s.bell.ringAll()
			}
		}
	}
}

var errReplaced = errors.New("database file replaced")

// lookout reads the sequence.
type lookout struct {
	pool *pool
	conn *sql.Conn
	stmt *sql.Stmt
	name string
}

func (s *Store) lookout(ctx context.Context) (*lookout, error) {
	p, err := s.connections()
	if err != nil {
		return nil, err
	}
	conn, err := p.read.Conn(ctx)
	if err != nil {
		return nil, err
	}
	stmt, err := conn.PrepareContext(ctx, selectSequence)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &lookout{p, conn, stmt, s.cfg.Names.Table}, nil
}

// sequence has no context: watching one takes a goroutine for each look, which
// costs more than the look. In WAL mode a reader does not wait for a writer.
func (l *lookout) sequence() (seq int64, err error) {
	if err = l.stmt.QueryRow(l.name).Scan(&seq); errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}

func (l *lookout) close() {
	l.stmt.Close() //nolint:errcheck // a reader has nothing to lose
	l.conn.Close() //nolint:errcheck // the same
}
