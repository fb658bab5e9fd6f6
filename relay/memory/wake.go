package memory

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider/relay"
)

// listener is one Listen that is under way.
type listener struct {
	ring func()
	lost chan struct{}
}

// armFor is how long Arm asks for the bell.
const armFor = time.Second

// Listen implements [relay.Waker].
func (s *Store) Listen(ctx context.Context, ring func()) error {
	l, err := call(ctx, s, "Listen", func() (*listener, error) {
		l := &listener{ring, make(chan struct{})}
		s.listeners[l] = struct{}{}
		return l, nil
	})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.lost:
		err = errors.New("memory store: listening connection lost")
	}
	s.Database.mu.Lock()
	defer s.Database.mu.Unlock()
	delete(s.listeners, l)
	return err
}

// Arm implements [relay.Waker].
func (s *Store) Arm(ctx context.Context) error {
	_, err := call(ctx, s, "Arm", func() (none, error) {
		s.arm(armFor)
		return none{}, nil
	})
	return err
}

func (d *Database) arm(wait time.Duration) {
	if until := time.Now().Add(wait); until.After(d.armed) {
		d.armed = until
	}
}

// bell arms or disarms as a fetch asked.
func (d *Database) bell(q relay.FetchQuery, out *relay.Fetched, empty bool) {
	switch {
	case q.Disarm:
		d.armed = time.Time{}
	case q.Arm > 0 && empty:
		d.arm(q.Arm)
		out.Armed = true
	}
}

func (d *Database) ring() {
	for l := range d.listeners {
		l.ring()
	}
}

// HangUp ends every Listen that is under way with an error, as a lost
// connection does.
func (d *Database) HangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for l := range d.listeners {
		close(l.lost)
		delete(d.listeners, l)
	}
}
