package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/postrider/postrider/relay"
)

// settle is one transaction. A row is touched only if it is as named in full.
func (t *tables) settle(b relay.Settlement, now time.Time) (out relay.Settled) {
	for _, ref := range b.Delivered {
		r := t.find(ref)
		if r == nil {
			out.Missed++
			continue
		}
		t.remove(r)
		t.delivered = append(t.delivered, Delivered{r.Row, now})
	}
	for _, m := range b.Marks {
		r := t.find(m.Ref)
		if r == nil {
			out.Missed++
			continue
		}
		r.mark(m, now)
	}
	fenced := b.Fence == (relay.Fence{}) || t.live(b.Fence)
	for _, death := range b.Dead {
		r := t.find(death.Ref)
		if r == nil || !fenced {
			out.Missed++
			continue
		}
		t.remove(r)
		r.Attempts = death.Attempts
		t.dead = append(t.dead, Dead{r.Row, death.Class, death.Cause, now})
	}
	return out
}

func (r *record) mark(m relay.Mark, now time.Time) {
	if !m.Keep {
		r.Attempts, r.LastError = m.Attempts, m.Error
	}
	switch m.Held {
	case relay.HeldRetry:
		r.held, r.retryAt = m.Held, now.Add(m.After)
		if m.After > relay.LongestWait { // as a store whose clock can be set back reads it
			r.retryAt = now
		}
	case relay.HeldBlocked:
		r.held, r.retryAt = m.Held, time.Time{}
	case relay.HeldBehind:
		if r.held == "" {
			r.held = m.Held
		}
	}
}

// promote gives due scheduled rows their place in the order.
func (t *tables) promote(limit int, now time.Time) int {
	var rows []*record
	for _, r := range t.rows {
		if r.scheduled() && !r.Available.After(now) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b *record) int { return a.Available.Compare(b.Available) })
	rows = rows[:min(limit, len(rows))]
	for _, r := range rows {
		t.remove(r)
		r.ID, r.Queued = t.draw(), now
		t.add(r)
	}
	return len(rows)
}

// Replay puts delivered events and dead letters back into the outbox, in the
// order of their old ids: a new id, the same event id, the next generation. It
// returns how many of those named it found.
func (d *Database) Replay(refs ...relay.Ref) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, now := &d.tables, time.Now()
	slices.SortFunc(refs, func(a, b relay.Ref) int { return cmp.Compare(a.ID.Int(), b.ID.Int()) })
	n := 0
	again := func(row relay.Row) {
		row.ID, row.Queued, row.Attempts, row.LastError = t.draw(), now, 0, ""
		row.Generation++
		t.add(&record{Row: row})
		n++
	}
	for _, ref := range refs {
		if i := slices.IndexFunc(t.delivered, func(r Delivered) bool { return r.Ref == ref }); i >= 0 {
			again(t.delivered[i].Row)
			t.delivered = slices.Delete(t.delivered, i, i+1)
		} else if i := slices.IndexFunc(t.dead, func(r Dead) bool { return r.Ref == ref }); i >= 0 {
			again(t.dead[i].Row)
			t.dead = slices.Delete(t.dead, i, i+1)
		}
	}
	return n
}
