package memory

import (
	"context"
	"time"

	"github.com/postrider/postrider/relay"
)

// Compete implements [relay.Claimer]. A claimed row is passed over by the
// others until its claim ends, like a locked one with SKIP LOCKED.
func (s *Store) Compete(ctx context.Context, limit int, publish func(context.Context, []relay.Row) relay.Settlement) (int, error) {
	claimed, err := call(ctx, s, "Compete", func() ([]*record, error) {
		var out []*record
		for _, r := range s.tables.rows {
			due := r.ready() || r.held != "" && !r.waits(time.Now())
			if len(out) < limit && due && !r.claimed {
				r.claimed = true
				out = append(out, r)
			}
		}
		return out, nil
	})
	if err != nil || len(claimed) == 0 {
		// A lost reply is a lost connection, so the claim ends with it.
		s.unclaim(claimed)
		return 0, err
	}
	defer s.unclaim(claimed)
	rows := make([]relay.Row, len(claimed))
	for i, r := range claimed {
		rows[i] = r.copy()
	}
	settlement := publish(ctx, rows)
	// What was accepted is settled also when ctx is done by now.
	_, err = call(context.WithoutCancel(ctx), s, "Commit", func() (relay.Settled, error) {
		return s.tables.settle(settlement, time.Now()), nil
	})
	return len(claimed), err
}

func (s *Store) unclaim(rows []*record) {
	s.Database.mu.Lock()
	defer s.Database.mu.Unlock()
	for _, r := range rows {
		r.claimed = false
	}
}
