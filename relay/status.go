package relay

import (
	"context"
	"time"
)

// Status is what a relay knows of itself and its outboxes. Its report on a
// database is nil where another relay reports, so that many relays do not count
// the same table.
type Status struct {
	Databases []DatabaseStatus `json:"databases"`
}

// DatabaseStatus is the status of one outbox.
type DatabaseStatus struct {
	Name   string  `json:"name"`
	Server string  `json:"server"`
	Report *Report `json:"report,omitempty"`
	// Error is why the database cannot be used just now, "" if it can.
	Error string `json:"error,omitempty"`
	// Wakeup is "bell", or why it is "poll".
	Wakeup string `json:"wakeup"`
	// Reached says that the database was reached since Run began.
	Reached bool `json:"reached"`

	Instance     string              `json:"instance,omitempty"`
	Lanes        int                 `json:"lanes"`
	Relays       []Member            `json:"relays,omitempty"`
	InMemory     int                 `json:"in_memory_events"`
	MemoryBytes  int64               `json:"memory_bytes"`
	Destinations []DestinationStatus `json:"destinations,omitempty"`
	NoRoute      []string            `json:"no_route,omitempty"`
	Paused       []string            `json:"paused,omitempty"`

	Counts Counts `json:"counts"`
	// LastSettle is when a settle last committed, LastFetch when a fetch last
	// returned; zero if none has.
	LastSettle time.Time `json:"last_settle"`
	LastFetch  time.Time `json:"last_fetch"`

	PublishSeconds, FetchSeconds, SettleSeconds, CommitToAckSeconds HistogramSnapshot `json:"-"`
}

// DestinationStatus is a destination that is not open.
type DestinationStatus struct {
	Broker   string        `json:"broker"`
	Name     string        `json:"name"`
	State    string        `json:"state"` // paused or probing
	Since    time.Time     `json:"since"`
	Retry    time.Duration `json:"retry_in"`
	Failures int           `json:"failures"`
	Cause    string        `json:"cause"`
}

// Counts are totals since New.
type Counts struct {
	Delivered   int64 `json:"delivered"`
	Failed      int64 `json:"failed"`
	Dead        int64 `json:"dead"`
	Held        int64 `json:"held"`
	Missed      int64 `json:"missed"`
	Fetches     int64 `json:"fetches"`
	Settles     int64 `json:"settles"`
	Wakeups     int64 `json:"wakeups"`
	Kept        int64 `json:"kept"`
	LanesMoved  int64 `json:"lanes_moved"`
	LeaseLosses int64 `json:"lease_losses"`
	HistoryLost int64 `json:"history_lost"`
}

// Status asks each database's loop for its state, and the database itself for
// the counts of its tables. It never fails: what could not be had is said in
// the fields.
func (r *Relay) Status(ctx context.Context) Status {
	var s Status
	for _, p := range r.pumps {
		d := DatabaseStatus{Name: p.db.Name}
		p.counters.fill(&d)
		reports := true
		p.ask1(ctx, func() { reports = p.fill(&d) })
		if reporter, ok := p.store.(Reporter); ok && reports {
			if report, err := reporter.Report(ctx); err == nil {
				d.Report = &report
			} else if d.Error == "" {
				d.Error = safeError(err)
			}
		}
		s.Databases = append(s.Databases, d)
	}
	return s
}

func (c *counters) fill(d *DatabaseStatus) {
	d.Counts = Counts{
		Delivered: c.delivered.Load(), Failed: c.failedEvents.Load(), Dead: c.deadEvents.Load(),
		Held: c.held.Load(), Missed: c.missed.Load(), Fetches: c.fetches.Load(), Settles: c.settles.Load(),
		Wakeups: c.wakeups.Load(), Kept: c.kept.Load(), LanesMoved: c.lanesMoved.Load(),
		LeaseLosses: c.leaseLosses.Load(), HistoryLost: c.historyLost.Load(),
	}
	d.PublishSeconds, d.FetchSeconds = c.publishTime.Snapshot(), c.fetchTime.Snapshot()
	d.SettleSeconds, d.CommitToAckSeconds = c.settleTime.Snapshot(), c.commitToAck.Snapshot()
	if n := c.lastSettle.Load(); n != 0 {
		d.LastSettle = time.Unix(0, n)
	}
	if n := c.lastLoop.Load(); n != 0 {
		d.LastFetch, d.Reached = time.Unix(0, n), true
	}
}

// ask1 runs do in the loop if it runs and takes it soon. Before the database was
// opened and with competing claims there is none to wait for.
func (p *pump) ask1(ctx context.Context, do func()) {
	if !p.looping.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	done := make(chan struct{})
	select {
	case p.commands <- func() { do(); close(done) }:
		<-done
	case <-ctx.Done():
	}
}

// fill reads the loop's state, and reports whether this relay is the one to
// count the tables.
func (p *pump) fill(d *DatabaseStatus) bool {
	d.Server = p.server.Describe
	d.Error = safeError(p.databaseErr)
	switch {
	case p.listening:
		d.Wakeup = "bell"
	case p.wakeupErr != nil:
		d.Wakeup = "poll: " + safeError(p.wakeupErr)
	default:
		d.Wakeup = "poll"
	}
	d.Instance, d.Relays, d.Lanes = p.fence.Instance, p.members, p.serving.Len()
	if p.leaser == nil {
		d.Lanes = AllLanes.Len()
	}
	d.InMemory, d.MemoryBytes = len(p.items), p.bytes
	for _, dest := range p.destinations {
		if dest.state == destOpen {
			continue
		}
		state := "paused"
		if dest.probing() {
			state = "probing"
		}
		d.Destinations = append(d.Destinations, DestinationStatus{
			Broker: dest.brokerName, Name: p.safeName(dest), State: state, Since: dest.since,
			Retry: max(0, time.Until(dest.until)), Failures: dest.failures, Cause: safeError(dest.cause),
		})
	}
	for name, t := range p.topics {
		if t.route == nil {
			d.NoRoute = append(d.NoRoute, name)
		}
	}
	for k := range p.pausedByOperator {
		d.Paused = append(d.Paused, k[0]+" "+k[1])
	}
	return p.keeps()
}

// Delivered returns how many events were delivered and settled since New, over
// all databases.
func (r *Relay) Delivered() int64 {
	var n int64
	for _, p := range r.pumps {
		n += p.delivered.Load()
	}
	return n
}
