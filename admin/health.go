package admin

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/relay"
)

// statusTimeout bounds what a request waits for the databases.
const statusTimeout = 5 * time.Second

// health answers the three checks.
type health struct {
	relay      Relay
	stallAfter time.Duration
	started    time.Time
	ready      atomic.Bool // latched: see readyz

	turn  chan struct{} // held by the request that asks
	began time.Time     // when it began to
	last  relay.Status
}

func newHealth(r Relay, stallAfter time.Duration) *health {
	return &health{relay: r, stallAfter: stallAfter, started: time.Now(), turn: make(chan struct{}, 1)}
}

func (h *health) healthz(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statusTimeout)
	defer cancel()
	answer(w, h.relay.Alive(ctx))
}

// readyz asks the databases only until all were reached once. From then on the
// answer is yes without asking: an outage is no reason to take a relay out.
func (h *health) readyz(w http.ResponseWriter, r *http.Request) {
	if h.ready.Load() {
		answer(w, nil)
		return
	}
	for _, d := range h.status(r.Context()).Databases {
		if !d.Reached && d.Server == "" {
			answer(w, fmt.Errorf("database %q not reached yet", d.Name))
			return
		}
	}
	h.ready.Store(true)
	answer(w, nil)
}

func (h *health) progressz(w http.ResponseWriter, r *http.Request) {
	for _, d := range h.status(r.Context()).Databases {
		if err := h.stalled(d); err != nil {
			answer(w, err)
			return
		}
	}
	answer(w, nil)
}

// stalled returns why a database makes no progress. Held events are no stall:
// they wait for a time or for an operator, and have an alert of their own.
func (h *health) stalled(d relay.DatabaseStatus) error {
	since := h.started
	if d.LastSettle.After(since) {
		since = d.LastSettle
	}
	quiet := time.Since(since)
	if quiet < h.stallAfter {
		return nil
	}
	switch {
	case d.Report == nil && d.Error != "":
		return fmt.Errorf("database %q cannot be used, nothing settled for %s", d.Name, quiet.Round(time.Second))
	case d.Report != nil && d.Report.PendingEvents > d.Report.HeldEvents &&
		d.Report.OldestPendingSeconds >= h.stallAfter.Seconds():
		return fmt.Errorf("database %q: %d events due, nothing settled for %s",
			d.Name, d.Report.PendingEvents-d.Report.HeldEvents, quiet.Round(time.Second))
	}
	return nil
}

// status asks the databases, one request at a time; those that waited meanwhile
// share the next answer. The checks need no token, and each of many at once would
// take a connection that settles and leases wait for.
func (h *health) status(ctx context.Context) relay.Status {
	came := time.Now()
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if !h.began.After(came) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), statusTimeout)
		defer cancel()
		h.began = time.Now()
		h.last = h.relay.Status(ctx)
	}
	return h.last
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}
