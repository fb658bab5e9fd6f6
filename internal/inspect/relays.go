package inspect

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider/relay"
)

// Relay is one relay's lease.
type Relay struct {
	Instance string `json:"instance"`
	Host     string `json:"host"`
	Version  string `json:"version"`
	Claim    string `json:"claim"`
	// StartedSeconds is how long ago it joined.
	StartedSeconds float64 `json:"started_seconds"`
	// Beat is its counter. It grows while the relay lives; one look cannot tell.
	Beat int64 `json:"beat"`
	// Lanes is how many lanes it owns.
	Lanes int `json:"lanes"`
}

// Lanes says who owns the lanes of the keys.
type Lanes struct {
	// Owner is the owner of each lane by its number; "" is nobody.
	Owner map[int]string
}

// OwnerOf returns the owner of a lane. Where all keys share one lane it is that
// one's.
func (l Lanes) OwnerOf(lane uint8) string {
	if len(l.Owner) == 1 {
		return l.Owner[0]
	}
	return l.Owner[int(lane)]
}

// Groups returns runs of lanes with the same owner, in order.
func (l Lanes) Groups() []LaneGroup {
	var groups []LaneGroup
	for lane := range 256 {
		owner, exists := l.Owner[lane]
		if !exists {
			continue
		}
		if last := len(groups) - 1; last >= 0 && groups[last].Owner == owner && groups[last].To == lane-1 {
			groups[last].To = lane
			continue
		}
		groups = append(groups, LaneGroup{From: lane, To: lane, Owner: owner})
	}
	return groups
}

// LaneGroup is a run of lanes that one relay owns.
type LaneGroup struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Owner string `json:"owner"` // "" is nobody
}

// selectRelays reads every lease row: a handful.
const selectRelays = `
SELECT instance, host, version, claim, -{{until:started_at}}, beat FROM {{relay}} ORDER BY started_at, instance`

// selectLanes reads the lane table: at most 256 rows.
const selectLanes = `SELECT lane, coalesce(owner, '') FROM {{lane}}`

// Relays returns the relays that have a lease row, and who owns which lane.
func (o Outbox) Relays(ctx context.Context) ([]Relay, Lanes, error) {
	relays := []Relay{}
	err := o.each(ctx, "relays", selectRelays, nil, func(rows *sql.Rows) error {
		var r Relay
		err := rows.Scan(&r.Instance, &r.Host, &r.Version, &r.Claim, &r.StartedSeconds, &r.Beat)
		relays = append(relays, r)
		return err
	})
	if err != nil {
		return nil, Lanes{}, err
	}
	lanes := Lanes{Owner: map[int]string{}}
	err = o.each(ctx, "lanes", selectLanes, nil, func(rows *sql.Rows) error {
		var lane int
		var owner string
		err := rows.Scan(&lane, &owner)
		lanes.Owner[lane] = owner
		return err
	})
	if err != nil {
		return nil, Lanes{}, err
	}
	for _, owner := range lanes.Owner {
		for i := range relays {
			if relays[i].Instance == owner {
				relays[i].Lanes++
			}
		}
	}
	return relays, lanes, nil
}

// selectControls reads what operators paused: a handful of rows.
const selectControls = `SELECT kind, name, by, reason FROM {{control}} ORDER BY kind, name`

// Paused returns what operators paused.
func (o Outbox) Paused(ctx context.Context) ([]relay.Control, error) {
	var controls []relay.Control
	err := o.each(ctx, "paused topics", selectControls, nil, func(rows *sql.Rows) error {
		var c relay.Control
		err := rows.Scan(&c.Kind, &c.Name, &c.By, &c.Reason)
		controls = append(controls, c)
		return err
	})
	return controls, err
}

// Silent reports whether a relay's beat stands still for the given time. A relay
// raises it every fifth of its lease. It asks again and again, so that a living
// relay is found at its next beat.
func (o Outbox) Silent(ctx context.Context, instance string, within time.Duration) (bool, error) {
	beat := func() (n int64, err error) {
		err = o.each(ctx, "beat of a relay", "SELECT beat FROM {{relay}} WHERE instance = $1", []any{instance}, func(rows *sql.Rows) error {
			return rows.Scan(&n)
		})
		return n, err
	}
	first, err := beat()
	if err != nil {
		return false, err
	}
	for end := time.Now().Add(within); time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(within / 20):
		}
		if now, err := beat(); err != nil || now != first {
			return false, err
		}
	}
	return true, nil
}
