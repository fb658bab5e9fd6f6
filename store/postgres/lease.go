package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider/relay"
)

// leaseSettings: a lease must be on disk before it counts, whatever the role's
// default is.
var leaseSettings = []setting{{"synchronous_commit", "on"}, {"lock_timeout", "5000"}}

// seenBeat is a lease row as it was met, and since when it has been so by this
// process's monotonic clock.
type seenBeat struct {
	epoch, beat int64
	since       time.Time
}

// Ages of lease rows that nobody renews. Ending a lease in time is Evict's work,
// by relays that know the lease time; these are for rows that no relay watches.
const (
	// rivalAge is when a row of another claim mode no longer keeps a relay out.
	rivalAge = time.Minute
	// goneAge is when housekeeping removes a row.
	goneAge = time.Hour
)

// Join implements relay.Leaser. A row of another claim mode keeps the caller out
// unless this Store has seen it unchanged for a minute of calls: its relay was
// killed, and a relay that may not join could never evict it.
func (s *Store) Join(ctx context.Context, m relay.Member) (relay.Fence, error) {
	var epoch int64
	var rivals []relay.Member
	read := func(v [][]byte) error {
		rivals = append(rivals, relay.Member{
			Fence: relay.Fence{Instance: string(v[0]), Epoch: int8Value(v[1])}, Beat: int8Value(v[2]), Claim: string(v[3]),
		})
		return nil
	}
	name, claim := textParam(m.Instance), textParam(m.Claim)
	err := s.run(ctx, leaseSettings,
		statement{sql: s.sql.pair, params: []param{name, name}},
		statement{sql: s.sql.lockLanes},
		statement{sql: s.sql.evictLanes, params: []param{name, boolParam(true)}},
		statement{sql: s.sql.rivals, params: []param{name, claim}, row: read},
		statement{
			sql: s.sql.join, params: []param{name, textParam(m.Host), textParam(m.Version), claim},
			row: func(v [][]byte) error { epoch = int8Value(v[0]); return nil },
		})
	if err != nil {
		return relay.Fence{}, wrap("join", err)
	}
	if len(rivals) == 0 {
		return relay.Fence{Instance: m.Instance, Epoch: epoch}, nil
	}
	for _, rival := range s.unchanged(rivals, rivalAge) {
		if err := s.end(ctx, rival); err != nil {
			return relay.Fence{}, wrap("join", err)
		}
	}
	return relay.Fence{}, fmt.Errorf("claim mode %q, relay %q uses %q: %w", m.Claim, rivals[0].Instance, rivals[0].Claim, relay.ErrClaimMode)
}

// Renew implements relay.Leaser.
func (s *Store) Renew(ctx context.Context, f relay.Fence, unreachable []string) ([]relay.Member, error) {
	var renewed int
	var members []relay.Member
	err := s.run(ctx, leaseSettings,
		statement{sql: s.sql.renew, params: append(fenceParams(f), textParam(strings.Join(unreachable, "\n"))), affected: &renewed},
		statement{sql: s.sql.members, params: []param{textParam(f.Instance)}, row: func(v [][]byte) error {
			members = append(members, relay.Member{
				Fence: relay.Fence{Instance: string(v[0]), Epoch: int8Value(v[1])}, Beat: int8Value(v[2]),
				Host: string(v[3]), Version: string(v[4]), Claim: string(v[5]), Lanes: laneList(string(v[7])),
				Unreachable: strings.FieldsFunc(string(v[6]), func(r rune) bool { return r == '\n' }),
			})
			return nil
		}})
	if err != nil {
		return nil, wrap("renew", err)
	}
	if renewed == 0 {
		return nil, lost(f)
	}
	return members, nil
}

// Evict implements relay.Leaser.
func (s *Store) Evict(ctx context.Context, f relay.Fence, dead relay.Member) (bool, error) {
	var evicted, fenced int
	err := s.run(ctx, leaseSettings,
		statement{sql: s.sql.pair, params: []param{textParam(f.Instance), textParam(dead.Instance)}},
		statement{sql: s.sql.fenced, params: fenceParams(f), affected: &fenced},
		statement{
			sql:    s.sql.evict,
			params: append([]param{textParam(dead.Instance), int8Param(dead.Epoch), int8Param(dead.Beat)}, fenceParams(f)...), affected: &evicted,
		},
		statement{sql: s.sql.evictLanes, params: []param{textParam(dead.Instance), boolParam(false)}})
	if err != nil {
		return false, wrap("evict", err)
	}
	if fenced == 0 {
		return false, lost(f)
	}
	return evicted > 0, nil
}

// Claim implements relay.Leaser.
func (s *Store) Claim(ctx context.Context, f relay.Fence, lanes relay.Lanes) (relay.Lanes, error) {
	var fenced int
	var took relay.Lanes
	err := s.run(ctx, leaseSettings,
		statement{sql: s.sql.fenced, params: fenceParams(f), affected: &fenced},
		statement{sql: s.sql.claim, params: append(fenceParams(f), laneArray(lanes)), row: func(v [][]byte) error {
			took.Add(uint8(int4Value(v[0])))
			return nil
		}})
	if err != nil {
		return relay.Lanes{}, wrap("claim", err)
	}
	if fenced == 0 {
		return relay.Lanes{}, lost(f)
	}
	return took, nil
}

// Release implements relay.Leaser.
func (s *Store) Release(ctx context.Context, f relay.Fence, lanes relay.Lanes) error {
	var fenced int
	err := s.run(ctx, leaseSettings,
		statement{sql: s.sql.fenced, params: fenceParams(f), affected: &fenced},
		statement{sql: s.sql.release, params: append(fenceParams(f), laneArray(lanes))})
	if err != nil {
		return wrap("release", err)
	}
	if fenced == 0 {
		return lost(f)
	}
	return nil
}

// Leave implements relay.Leaser. Leaving a lease that has ended is no error.
func (s *Store) Leave(ctx context.Context, f relay.Fence) error {
	return wrap("leave", s.end(ctx, relay.Member{Fence: f, Beat: -1}))
}

// end removes a lease row, if it is still as given (any beat if that is -1), and
// frees its lanes.
func (s *Store) end(ctx context.Context, m relay.Member) error {
	remove := statement{sql: s.sql.forget, params: fenceParams(m.Fence)}
	if m.Beat >= 0 {
		remove = statement{sql: s.sql.forgetBeat, params: append(fenceParams(m.Fence), int8Param(m.Beat))}
	}
	return s.run(ctx, leaseSettings, remove,
		statement{sql: s.sql.evictLanes, params: []param{textParam(m.Instance), boolParam(false)}})
}

// unchanged returns those of the lease rows that this Store has seen as they are
// for at least age, and remembers the others.
func (s *Store) unchanged(rows []relay.Member, age time.Duration) (old []relay.Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, m := range rows {
		seen, ok := s.beats[m.Instance]
		if !ok || seen.epoch != m.Epoch || seen.beat != m.Beat {
			s.beats[m.Instance] = seenBeat{m.Epoch, m.Beat, now}
		} else if now.Sub(seen.since) >= age {
			old = append(old, m)
		}
	}
	return old
}

func lost(f relay.Fence) error {
	return fmt.Errorf("relay %q, epoch %d: %w", f.Instance, f.Epoch, relay.ErrLeaseLost)
}

func fenceParams(f relay.Fence) []param {
	return []param{textParam(f.Instance), int8Param(f.Epoch)}
}

func laneArray(l relay.Lanes) param {
	list := l.List()
	return int4Array(len(list), func(i int) int32 { return int32(list[i]) })
}

func laneList(s string) (l relay.Lanes) {
	for n := range strings.SplitSeq(s, ",") {
		if lane, err := strconv.ParseUint(n, 10, 8); err == nil {
			l.Add(uint8(lane))
		}
	}
	return l
}
