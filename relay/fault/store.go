package fault

import (
	"context"
	"errors"

	"github.com/postrider/postrider/relay"
)

// NewStore wraps a store. The result implements [relay.Leaser] if s does, and
// always the other optional interfaces: where s has none, Listen says so,
// Arm does nothing, and Compete and Report return [errors.ErrUnsupported].
//
// Close is passed on also after a crash, for a test to clean up.
func NewStore(s relay.Store, in *Injector) relay.Store {
	w := &store{s, in}
	if l, ok := s.(relay.Leaser); ok {
		return &leasingStore{w, l}
	}
	return w
}

// WithoutLeases hides the leases of a store, so that every relay on it owns
// everything.
func WithoutLeases(s relay.Store) relay.Store {
	return &store{s, New(nil)}
}

type store struct {
	inner relay.Store
	in    *Injector
}

// do makes one call: fault, effect, fault.
func do[T any](ctx context.Context, in *Injector, method string, events int, effect func(context.Context) (T, error)) (T, error) {
	var zero T
	f, err := in.begin(ctx, method, events)
	if err != nil {
		return zero, err
	}
	alive, cancel := in.alive(ctx)
	out, err := effect(alive)
	cancel()
	if lost := in.end(ctx, f); lost != nil {
		return zero, lost
	}
	return out, err
}

type none = struct{}

func (s *store) Open(ctx context.Context) (relay.Server, error) {
	return do(ctx, s.in, "Open", 0, s.inner.Open)
}

func (s *store) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	return do(ctx, s.in, "Fetch", 0, func(ctx context.Context) (relay.Fetched, error) { return s.inner.Fetch(ctx, q) })
}

func (s *store) ReadKeys(ctx context.Context, keys []relay.Key, limit int) ([]relay.KeyRead, error) {
	return do(ctx, s.in, "ReadKeys", 0, func(ctx context.Context) ([]relay.KeyRead, error) {
		return s.inner.ReadKeys(ctx, keys, limit)
	})
}

func (s *store) HeldKeys(ctx context.Context, after relay.Key, limit int) ([]relay.Key, bool, error) {
	more := false
	keys, err := do(ctx, s.in, "HeldKeys", 0, func(ctx context.Context) (keys []relay.Key, err error) {
		keys, more, err = s.inner.HeldKeys(ctx, after, limit)
		return keys, err
	})
	return keys, more && err == nil, err
}

func (s *store) Settle(ctx context.Context, b relay.Settlement) (relay.Settled, error) {
	rows := len(b.Delivered) + len(b.Marks) + len(b.Dead)
	return do(ctx, s.in, "Settle", rows, func(ctx context.Context) (relay.Settled, error) { return s.inner.Settle(ctx, b) })
}

func (s *store) Promote(ctx context.Context, limit int) (int, error) {
	return do(ctx, s.in, "Promote", 0, func(ctx context.Context) (int, error) { return s.inner.Promote(ctx, limit) })
}

func (s *store) Keep(ctx context.Context) (relay.Kept, error) {
	return do(ctx, s.in, "Keep", 0, s.inner.Keep)
}

func (s *store) Close() error { return s.inner.Close() }

func (s *store) Listen(ctx context.Context, ring func()) error {
	w, ok := s.inner.(relay.Waker)
	if !ok {
		return errors.New("store has no wake-up")
	}
	_, err := do(ctx, s.in, "Listen", 0, func(ctx context.Context) (none, error) { return none{}, w.Listen(ctx, ring) })
	return err
}

func (s *store) Arm(ctx context.Context) error {
	w, ok := s.inner.(relay.Waker)
	if !ok {
		return nil
	}
	_, err := do(ctx, s.in, "Arm", 0, func(ctx context.Context) (none, error) { return none{}, w.Arm(ctx) })
	return err
}

func (s *store) Floors(ctx context.Context, seen relay.RowID) (floors map[string]relay.RowID, upTo relay.RowID, err error) {
	f, ok := s.inner.(relay.Floorer)
	if !ok {
		return nil, relay.RowID{}, nil
	}
	floors, err = do(ctx, s.in, "Floors", 0, func(ctx context.Context) (map[string]relay.RowID, error) {
		floors, to, err := f.Floors(ctx, seen)
		upTo = to
		return floors, err
	})
	if err != nil {
		upTo = relay.RowID{}
	}
	return floors, upTo, err
}

func (s *store) Compete(ctx context.Context, limit int, publish func(context.Context, []relay.Row) relay.Settlement) (int, error) {
	c, ok := s.inner.(relay.Claimer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	// The outcomes of a process that died in publish never reach the database.
	mortal := func(ctx context.Context, rows []relay.Row) relay.Settlement {
		out := publish(ctx, rows)
		if s.in.pass() != nil {
			return relay.Settlement{}
		}
		return out
	}
	return do(ctx, s.in, "Compete", 0, func(ctx context.Context) (int, error) { return c.Compete(ctx, limit, mortal) })
}

func (s *store) Report(ctx context.Context) (relay.Report, error) {
	r, ok := s.inner.(relay.Reporter)
	if !ok {
		return relay.Report{}, errors.ErrUnsupported
	}
	return do(ctx, s.in, "Report", 0, r.Report)
}

// leasingStore is a store with the leases of what it wraps.
type leasingStore struct {
	*store
	leaser relay.Leaser
}

func (s *leasingStore) Join(ctx context.Context, m relay.Member) (relay.Fence, error) {
	return do(ctx, s.in, "Join", 0, func(ctx context.Context) (relay.Fence, error) { return s.leaser.Join(ctx, m) })
}

func (s *leasingStore) Renew(ctx context.Context, f relay.Fence, unreachable []string) ([]relay.Member, error) {
	return do(ctx, s.in, "Renew", 0, func(ctx context.Context) ([]relay.Member, error) { return s.leaser.Renew(ctx, f, unreachable) })
}

func (s *leasingStore) Evict(ctx context.Context, f relay.Fence, dead relay.Member) (bool, error) {
	return do(ctx, s.in, "Evict", 0, func(ctx context.Context) (bool, error) { return s.leaser.Evict(ctx, f, dead) })
}

func (s *leasingStore) Claim(ctx context.Context, f relay.Fence, lanes relay.Lanes) (relay.Lanes, error) {
	return do(ctx, s.in, "Claim", 0, func(ctx context.Context) (relay.Lanes, error) { return s.leaser.Claim(ctx, f, lanes) })
}

func (s *leasingStore) Release(ctx context.Context, f relay.Fence, lanes relay.Lanes) error {
	_, err := do(ctx, s.in, "Release", 0, func(ctx context.Context) (none, error) {
		return none{}, s.leaser.Release(ctx, f, lanes)
	})
	return err
}

func (s *leasingStore) Leave(ctx context.Context, f relay.Fence) error {
	_, err := do(ctx, s.in, "Leave", 0, func(ctx context.Context) (none, error) { return none{}, s.leaser.Leave(ctx, f) })
	return err
}
