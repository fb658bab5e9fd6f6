package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/relay"
)

// member is a lease row. The lanes stand in the lane table.
type member struct {
	relay.Member
	beatAt time.Time // for housekeeping only
}

// lane is a row of the lane table. Its epoch grows with each change of owner.
type lane struct {
	owner string
	epoch int64
}

// none is the reply of a method that has none.
type none = struct{}

func (t *tables) live(f relay.Fence) bool {
	m := t.members[f.Instance]
	return m != nil && m.Epoch == f.Epoch
}

func (t *tables) check(f relay.Fence) error {
	if !t.live(f) {
		return fmt.Errorf("relay %q, epoch %d: %w", f.Instance, f.Epoch, relay.ErrLeaseLost)
	}
	return nil
}

// end removes a lease row and frees its lanes.
func (t *tables) end(instance string) {
	delete(t.members, instance)
	for i := range t.lanes {
		if t.lanes[i].owner == instance {
			t.lanes[i] = lane{epoch: t.lanes[i].epoch + 1}
		}
	}
}

// Join implements [relay.Leaser]. A relay that joins again under the same
// instance starts from nothing: its former lease ends.
func (s *Store) Join(ctx context.Context, m relay.Member) (relay.Fence, error) {
	return call(ctx, s, "Join", func() (relay.Fence, error) {
		t := &s.tables
		for _, other := range t.members {
			if other.Instance != m.Instance && other.Claim != m.Claim {
				return relay.Fence{}, fmt.Errorf("claim %q, relay %q has %q: %w", m.Claim, other.Instance, other.Claim, relay.ErrClaimMode)
			}
		}
		t.end(m.Instance)
		t.epochs++
		m.Epoch, m.Beat, m.Lanes, m.Unreachable = t.epochs, 0, relay.Lanes{}, nil
		t.members[m.Instance] = &member{m, time.Now()}
		return m.Fence, nil
	})
}

// Renew implements [relay.Leaser].
func (s *Store) Renew(ctx context.Context, f relay.Fence, unreachable []string) ([]relay.Member, error) {
	return call(ctx, s, "Renew", func() ([]relay.Member, error) {
		t := &s.tables
		if err := t.check(f); err != nil {
			return nil, err
		}
		t.members[f.Instance].Beat++
		t.members[f.Instance].Unreachable = slices.Clone(unreachable)
		t.members[f.Instance].beatAt = time.Now()
		return t.list(f.Instance), nil
	})
}

// list returns the members with their lanes: the first one given, then the
// others by name.
func (t *tables) list(first string) []relay.Member {
	var out []relay.Member
	for _, m := range t.members {
		row := m.Member
		for i := range t.lanes {
			if t.lanes[i].owner == m.Instance {
				row.Lanes.Add(uint8(i))
			}
		}
		out = append(out, row)
	}
	rank := func(m relay.Member) int {
		if m.Instance == first {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(a, b relay.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}

// Evict implements [relay.Leaser].
func (s *Store) Evict(ctx context.Context, f relay.Fence, dead relay.Member) (bool, error) {
	return call(ctx, s, "Evict", func() (bool, error) {
		t := &s.tables
		if err := t.check(f); err != nil {
			return false, err
		}
		m := t.members[dead.Instance]
		if m == nil || m.Epoch != dead.Epoch || m.Beat != dead.Beat {
			return false, nil
		}
		t.end(dead.Instance)
		return true, nil
	})
}

// Claim implements [relay.Leaser].
func (s *Store) Claim(ctx context.Context, f relay.Fence, lanes relay.Lanes) (relay.Lanes, error) {
	return call(ctx, s, "Claim", func() (took relay.Lanes, err error) {
		t := &s.tables
		if err := t.check(f); err != nil {
			return took, err
		}
		for _, i := range lanes.List() {
			if t.lanes[i].owner == "" {
				t.lanes[i] = lane{f.Instance, t.lanes[i].epoch + 1}
				took.Add(i)
			}
		}
		return took, nil
	})
}

// Release implements [relay.Leaser].
func (s *Store) Release(ctx context.Context, f relay.Fence, lanes relay.Lanes) error {
	_, err := call(ctx, s, "Release", func() (none, error) {
		t := &s.tables
		if err := t.check(f); err != nil {
			return none{}, err
		}
		for _, i := range lanes.List() {
			if t.lanes[i].owner == f.Instance {
				t.lanes[i] = lane{epoch: t.lanes[i].epoch + 1}
			}
		}
		return none{}, nil
	})
	return err
}

// Leave implements [relay.Leaser]. Leaving a lease that has ended is no error.
func (s *Store) Leave(ctx context.Context, f relay.Fence) error {
	_, err := call(ctx, s, "Leave", func() (none, error) {
		if s.tables.live(f) {
			s.tables.end(f.Instance)
		}
		return none{}, nil
	})
	return err
}
