package memory

import (
	"time"

	"github.com/postrider/postrider/relay"
)

const (
	// keepRows bounds one call of Keep.
	keepRows = 1000
	// memberRetention is how long a lease row that nobody renews is kept. It is
	// far beyond any lease: ending a lease is Evict's work.
	memberRetention = time.Hour
)

// keep removes the oldest rows that are past their retention.
func (d *Database) keep(now time.Time) (out relay.Kept) {
	t := &d.tables
	old := func(at time.Time, retention time.Duration) bool {
		return retention > 0 && now.Sub(at) > retention
	}
	for len(t.delivered) > 0 && old(t.delivered[0].At, d.cfg.Retention) {
		if out.Removed == keepRows {
			return relay.Kept{Removed: keepRows, More: true}
		}
		t.delivered = t.delivered[1:]
		out.Removed++
	}
	for len(t.dead) > 0 && old(t.dead[0].At, d.cfg.DeadRetention) {
		if out.Removed == keepRows {
			return relay.Kept{Removed: keepRows, More: true}
		}
		t.dead = t.dead[1:]
		out.Removed++
	}
	for _, m := range t.members {
		if old(m.beatAt, memberRetention) {
			t.end(m.Instance)
			out.Removed++
		}
	}
	return out
}
