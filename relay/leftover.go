package relay

import (
	"context"
	"fmt"
	"time"
)

// onceProbes is how often a Drain tries a destination that fails.
const onceProbes = 3

// probeWithin reports whether a Drain should still wait for a destination.
func (p *pump) probeWithin() bool {
	for _, d := range p.destinations {
		if d.paused() && d.worthWaiting() {
			return true
		}
	}
	return false
}

// worthWaiting reports whether a Drain waits for a paused destination. One that
// is being probed needs no waiting: what it is probed with is in memory.
func (d *destination) worthWaiting() bool {
	return d.failures <= onceProbes && time.Until(d.until) < 2*time.Second
}

// leftovers says why due events may still be there after a Drain.
func (p *pump) leftovers() []Leftover {
	var left []Leftover
	add := func(what, format string, args ...any) {
		left = append(left, Leftover{What: what, Why: fmt.Sprintf(format, args...)})
	}
	if !p.serves() {
		add("all lanes", "owned by %d other relays", max(0, len(p.members)-1))
	}
	for _, d := range p.destinations {
		if d.state != destOpen && d.cause != nil {
			add("destination "+p.safeName(d), "unavailable: %s", safeError(d.cause))
		}
	}
	left = append(left, p.unroutable()...)
	for k := range p.pausedByOperator {
		add(k[0]+" "+k[1], "paused by an operator")
	}
	return left
}

// unroutable lists the topics of which an event without a route was met.
func (p *pump) unroutable() (left []Leftover) {
	for name, t := range p.topics {
		if t.unroutable {
			left = append(left, Leftover{What: "topic " + name, Why: "no route"})
		}
	}
	return left
}

// heldLeft adds the held events to what a Drain left.
func (p *pump) heldLeft(ctx context.Context) {
	reporter, ok := p.store.(Reporter)
	if !ok || !p.once {
		return
	}
	report, err := reporter.Report(ctx)
	switch {
	case err != nil:
		p.leftReason = append(p.leftReason, Leftover{What: "held events", Why: "not known: " + safeError(err)})
	case report.HeldEvents > 0:
		p.leftReason = append(p.leftReason, Leftover{
			What: fmt.Sprintf("%d held events", report.HeldEvents), Why: fmt.Sprintf("%d keys blocked, the others wait for a retry", report.BlockedKeys),
		})
	}
}
