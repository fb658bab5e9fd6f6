package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// Leases of a file with one lane.
//
//	          Join                Claim
//	(none) ─────────► standby ─────────► owner
//	   ▲                │  ▲                │
//	   └── Leave, Evict ┘  └── Release ─────┤
//	   ▲                                    │
//	   └───────────── Leave, Evict ─────────┘
//
// The relay's interface speaks of 256 lanes. Here they are one unit: Claim
// takes [relay.AllLanes] or nothing, whatever it was asked for, and Release
// gives it up only when all of it is named. To share it out would buy nothing,
// since the file has one writer.
//
// What the database decides: who holds the lane (the row of outbox_lane), and
// whether a lease is still the one that its holder thinks (epoch). Epochs only
// grow, over all relays. What each process decides, by its own monotonic clock:
// whether a beat has stood still for too long.
//
//	a relay is paused past its lease     it is evicted; its next Renew finds no
//	                                     row and returns ErrLeaseLost
//	evicted just while it renews         Evict names the beat that was seen and
//	                                     does nothing
//	a crash between Join and Claim       the lane is free; the row is evicted
//	the owner's row is gone, the lane    Claim takes a lane whose owner has no
//	still names it                       row

// Join implements [relay.Leaser]. Rows of another claim mode that have stood
// still for Config.GoneAfter, watched over several calls, are leftovers and are
// removed.
func (s *Store) Join(ctx context.Context, m relay.Member) (relay.Fence, error) {
	f := relay.Fence{Instance: m.Instance}
	err := s.write(ctx, true, func(tx *sql.Tx) error {
		members, err := s.members(ctx, tx, m.Instance)
		if err != nil {
			return err
		}
		gone := s.gone.look(members, s.cfg.GoneAfter)
		for _, other := range members {
			if other.Instance == m.Instance || other.Claim == m.Claim {
				continue
			}
			if !gone[other.Instance] {
				return fmt.Errorf("relay %q claims %s: %w", other.Instance, other.Claim, relay.ErrClaimMode)
			}
			if _, err := s.removeRelay(ctx, tx, other.Fence, other.Beat); err != nil {
				return err
			}
		}
		if err := s.free(ctx, tx, m.Instance); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, s.sql(updateEpoch)).Scan(&f.Epoch); err != nil {
			return err
		}
		_, err = execute(ctx, tx, s.sql(insertRelay), m.Instance, f.Epoch, m.Host, m.Version, m.Claim)
		return err
	})
	if err != nil {
		return relay.Fence{}, s.explain("join relays of outbox", err)
	}
	return f, nil
}

// Renew implements [relay.Leaser].
func (s *Store) Renew(ctx context.Context, f relay.Fence, unreachable []string) ([]relay.Member, error) {
	var members []relay.Member
	err := s.write(ctx, false, func(tx *sql.Tx) error {
		n, err := execute(ctx, tx, s.sql(updateBeat), f.Instance, f.Epoch, strings.Join(unreachable, "\n"))
		if err != nil {
			return err
		}
		if n == 0 {
			return relay.ErrLeaseLost
		}
		members, err = s.members(ctx, tx, f.Instance)
		return err
	})
	if err != nil {
		return nil, s.explain("renew lease on outbox", err)
	}
	return members, nil
}

// Evict implements [relay.Leaser].
func (s *Store) Evict(ctx context.Context, f relay.Fence, dead relay.Member) (bool, error) {
	var done bool
	err := s.write(ctx, true, func(tx *sql.Tx) error {
		lost, err := s.lost(ctx, tx, f)
		if err != nil {
			return err
		}
		if lost {
			return relay.ErrLeaseLost
		}
		done, err = s.removeRelay(ctx, tx, dead.Fence, dead.Beat)
		return err
	})
	return done && err == nil, s.explain("evict relay from outbox", err)
}

// Claim implements [relay.Leaser].
func (s *Store) Claim(ctx context.Context, f relay.Fence, lanes relay.Lanes) (relay.Lanes, error) {
	if lanes.Len() == 0 {
		return relay.Lanes{}, nil
	}
	var got relay.Lanes
	err := s.write(ctx, true, func(tx *sql.Tx) error {
		got = relay.Lanes{}
		lost, err := s.lost(ctx, tx, f)
		if err != nil {
			return err
		}
		if lost {
			return relay.ErrLeaseLost
		}
		n, err := execute(ctx, tx, s.sql(updateClaim), f.Instance)
		if n > 0 {
			got = relay.AllLanes
		}
		return err
	})
	if err != nil {
		return relay.Lanes{}, s.explain("claim outbox", err)
	}
	return got, nil
}

// Release implements [relay.Leaser]. It does nothing unless lanes are all
// lanes: there is one, and its owner must not lose it by giving up a part.
func (s *Store) Release(ctx context.Context, f relay.Fence, lanes relay.Lanes) error {
	if lanes != relay.AllLanes {
		return nil
	}
	err := s.write(ctx, true, func(tx *sql.Tx) error {
		lost, err := s.lost(ctx, tx, f)
		if err != nil {
			return err
		}
		if lost {
			return relay.ErrLeaseLost
		}
		return s.free(ctx, tx, f.Instance)
	})
	return s.explain("release outbox", err)
}

// Leave implements [relay.Leaser].
func (s *Store) Leave(ctx context.Context, f relay.Fence) error {
	err := s.write(ctx, true, func(tx *sql.Tx) error {
		_, err := s.removeRelay(ctx, tx, f, nil)
		return err
	})
	return s.explain("leave relays of outbox", err)
}

// members returns all relays, the named one first.
func (s *Store) members(ctx context.Context, tx *sql.Tx, first string) ([]relay.Member, error) {
	return collect(ctx, tx, s.sql(selectMembers), []any{first}, func(rows *sql.Rows) (m relay.Member, err error) {
		var owner bool
		var unreachable string
		err = rows.Scan(&m.Instance, &m.Epoch, &m.Beat, &m.Host, &m.Version, &m.Claim, &unreachable, &owner)
		m.Unreachable = strings.FieldsFunc(unreachable, func(r rune) bool { return r == '\n' })
		if owner {
			m.Lanes = relay.AllLanes
		}
		return m, err
	})
}

// removeRelay removes a lease row and frees its lane, if the row still has the
// epoch and, unless beat is nil, the beat.
func (s *Store) removeRelay(ctx context.Context, tx *sql.Tx, f relay.Fence, beat any) (bool, error) {
	n, err := execute(ctx, tx, s.sql(deleteRelay), f.Instance, f.Epoch, beat)
	if err != nil || n == 0 {
		return false, err
	}
	return true, s.free(ctx, tx, f.Instance)
}

func (s *Store) free(ctx context.Context, tx *sql.Tx, instance string) error {
	_, err := execute(ctx, tx, s.sql(updateFree), instance)
	return err
}

func execute(ctx context.Context, tx *sql.Tx, query string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// watch remembers when each relay's beat was last seen to change, by this
// process's monotonic clock.
type watch struct {
	sync.Mutex
	seen map[string]sighting
}

type sighting struct {
	epoch, beat int64
	since       time.Time
}

// look returns the relays whose beat has stood still for at least d.
func (w *watch) look(members []relay.Member, d time.Duration) map[string]bool {
	w.Lock()
	defer w.Unlock()
	gone := map[string]bool{}
	seen := make(map[string]sighting, len(members))
	for _, m := range members {
		at, ok := w.seen[m.Instance]
		if !ok || at.epoch != m.Epoch || at.beat != m.Beat {
			at = sighting{m.Epoch, m.Beat, time.Now()}
		}
		seen[m.Instance] = at
		gone[m.Instance] = time.Since(at.since) >= d
	}
	w.seen = seen
	return gone
}

// removeGone removes the lease rows of relays long gone that no relay evicted,
// because none was there.
func (s *Store) removeGone(ctx context.Context, kept *relay.Kept) error {
	var members []relay.Member
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		members, err = s.members(ctx, tx, "")
		return err
	})
	if err != nil {
		return err
	}
	gone := s.gone.look(members, s.cfg.GoneAfter)
	for _, m := range members {
		if !gone[m.Instance] {
			continue
		}
		var removed bool
		err := s.write(ctx, true, func(tx *sql.Tx) (err error) {
			removed, err = s.removeRelay(ctx, tx, m.Fence, m.Beat)
			return err
		})
		if err != nil {
			return err
		}
		if removed {
			kept.Removed++
		}
	}
	return nil
}
