package memory

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/relay"
)

// Pending returns the rows of the outbox, by id: held and scheduled ones too.
func (d *Database) Pending() []relay.Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []relay.Row
	for _, r := range d.tables.rows {
		out = append(out, r.copy())
	}
	return out
}

// Held returns the held rows, by id.
func (d *Database) Held() []Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []Held
	for _, r := range d.tables.rows {
		if r.held != "" {
			out = append(out, Held{r.copy(), r.held, r.retryAt})
		}
	}
	return out
}

// Delivered returns the history, in the order of settling.
func (d *Database) Delivered() []Delivered {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tables.delivered)
}

// Dead returns the dead letters, in the order of dying.
func (d *Database) Dead() []Dead {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tables.dead)
}

// Members returns the lease rows with their lanes, by instance.
func (d *Database) Members() []relay.Member {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tables.list("")
}

// Pause writes a row of the control table, as an operator's command does. A
// second one of the same kind and name takes its place.
func (d *Database) Pause(c relay.Control) {
	d.Resume(c.Kind, c.Name)
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Since = time.Now()
	d.tables.controls = append(d.tables.controls, c)
}

// Resume removes a row of the control table.
func (d *Database) Resume(kind, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// A fetch may have handed out the slice, so it is not changed in place.
	d.tables.controls = slices.DeleteFunc(slices.Clone(d.tables.controls), func(c relay.Control) bool {
		return c.Kind == kind && c.Name == name
	})
}

// Backup is the content of a database at one moment.
type Backup struct{ tables tables }

// Backup copies all that is committed.
func (d *Database) Backup() Backup {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Backup{d.tables.clone()}
}

// Restore puts the content of a backup in place of the present one: later
// commits are lost and their ids will be drawn again, as after the promotion of
// a standby that lagged. The server gets another identity.
func (d *Database) Restore(b Backup, identity string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tables, d.identity = b.tables.clone(), identity
}

func (t *tables) clone() tables {
	out := *t
	out.rows = make([]*record, len(t.rows))
	for i, r := range t.rows {
		c := *r
		c.claimed = false
		out.rows[i] = &c
	}
	out.members = maps.Clone(t.members)
	for k, m := range out.members {
		c := *m
		out.members[k] = &c
	}
	out.delivered, out.dead = slices.Clone(t.delivered), slices.Clone(t.dead)
	out.controls = slices.Clone(t.controls)
	return out
}

// Report implements [relay.Reporter]. It counts everything.
func (s *Store) Report(ctx context.Context) (relay.Report, error) {
	return call(ctx, s, "Report", func() (relay.Report, error) { return s.tables.report(time.Now()), nil })
}

func (t *tables) report(now time.Time) (out relay.Report) {
	topics := map[string]*relay.TopicReport{}
	of := func(topic string) *relay.TopicReport {
		if topics[topic] == nil {
			topics[topic] = &relay.TopicReport{Topic: topic}
		}
		return topics[topic]
	}
	for _, r := range t.rows {
		c := of(r.Topic)
		if r.Available.After(now) {
			c.ScheduledEvents++
			out.ScheduledEvents++
			continue
		}
		since := r.Queued
		if r.Available.After(since) {
			since = r.Available
		}
		age := now.Sub(since).Seconds()
		c.PendingEvents++
		out.PendingEvents++
		c.OldestPendingSeconds = max(c.OldestPendingSeconds, age)
		out.OldestPendingSeconds = max(out.OldestPendingSeconds, age)
		if r.held != "" {
			c.HeldEvents++
			out.HeldEvents++
		}
	}
	for _, r := range t.heads() {
		if r.held == relay.HeldBlocked {
			out.BlockedKeys++
		}
	}
	for _, r := range t.dead {
		of(r.Topic).DeadEvents++
		out.DeadEvents++
	}
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		out.Topics = append(out.Topics, *topics[topic])
	}
	return out
}
