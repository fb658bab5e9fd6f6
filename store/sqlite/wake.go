package sqlite

import (
	"context"
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
// Config.WakeInterval, and rings when it has grown past what the last fetch
// saw. `PRAGMA data_version` costs the same and also changes with the relay's
// own settles and renewals.
//
// While it is not armed nothing runs. An application in the same process can
// call Ring after its commits and does not wait for the next look.
type bell struct {
	sync.Mutex
	until time.Time     // armed until then
	seen  int64         // the sequence as the sleeper knows it
	armed chan struct{} // tells Listen that until has changed; holds one token
	rings map[*chan struct{}]struct{}
}

// arm sets what the sleeper knows and reports whether somebody listens.
func (b *bell) arm(d time.Duration, seq int64) bool {
	b.Lock()
	b.seen = seq
	b.Unlock()
	return b.extend(d)
}

func (b *bell) extend(d time.Duration) bool {
	b.Lock()
	defer b.Unlock()
	b.until = time.Now().Add(d)
	select {
	case b.armed <- struct{}{}:
	default:
	}
	return len(b.rings) > 0
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

// noticed takes the sequence that was just read, and reports whether it rings.
// It rings once for each arming.
func (b *bell) noticed(seq int64) bool {
	b.Lock()
	defer b.Unlock()
	if seq == b.seen || b.until.IsZero() {
		return false
	}
	b.seen, b.until = seq, time.Time{}
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

// Listen implements [relay.Waker].
func (s *Store) Listen(ctx context.Context, ring func()) error {
	rung := make(chan struct{}, 1)
	s.bell.Lock()
	if s.bell.rings == nil {
		s.bell.rings = map[*chan struct{}]struct{}{}
	}
	s.bell.rings[&rung] = struct{}{}
	s.bell.Unlock()
	defer func() {
		s.bell.Lock()
		delete(s.bell.rings, &rung)
		s.bell.Unlock()
	}()
	tick := time.NewTicker(s.cfg.WakeInterval)
	defer tick.Stop()
	for {
		var look <-chan time.Time
		if s.bell.isArmed() {
			look = tick.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-rung:
			ring()
		case <-s.bell.armed:
		case <-look:
			if err := s.look(ctx); err != nil && ctx.Err() == nil {
				return s.explain("watch for new rows of outbox", err)
			}
		}
	}
}

// look rings if rows came. A file that is briefly locked is looked at again.
func (s *Store) look(ctx context.Context) error {
	p, err := s.connections()
	if err != nil {
		return err
	}
	seq, err := s.sequence(ctx, p.read)
	if err != nil {
		if isBusy(err) || errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	if s.bell.noticed(seq) {
		s.bell.ringAll()
	}
	return nil
}
