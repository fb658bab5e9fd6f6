package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/postrider/postrider/outbox"
)

// Relay moves events from its databases to its brokers. Create it with New;
// Run and Drain may each be called once at a time. All methods are safe for
// concurrent use.
type Relay struct {
	cfg    Config
	routes []*route
	pumps  []*pump
}

// New makes a relay. It does no network I/O. Its error joins one for each
// field of cfg that is wrong.
func New(cfg Config) (*Relay, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	r := &Relay{cfg: cfg}
	for _, rt := range cfg.Routes {
		compiled, err := compileRoute(rt)
		if err != nil {
			return nil, err
		}
		if a, ok := cfg.Brokers[compiled.Broker].(Addresser); ok {
			compiled.escaper = a
		}
		r.routes = append(r.routes, compiled)
	}
	for _, db := range cfg.Databases {
		r.pumps = append(r.pumps, newPump(r, db))
	}
	return r, nil
}

// Run serves all databases until ctx is done. It then takes no new events,
// waits up to Config.DrainTimeout for the calls on their way to return and
// their outcomes to be settled, gives up its lanes and returns nil.
//
// Unreachable databases and brokers are tried again for as long as it takes,
// each without holding up the others. Run fails only if at its start a database
// answers but cannot be served: the error is marked by [Misconfigured].
func (r *Relay) Run(ctx context.Context) error {
	_, err := r.run(ctx, false)
	return err
}

// Drain moves everything that is due now and returns: when nothing is left but
// what waits for a time, an operator, an unavailable destination or another
// relay. It is one deterministic pass, for tests and for relay --once. It fails
// like Run, and with ctx's error when ctx is done before the pass is.
func (r *Relay) Drain(ctx context.Context) (DrainReport, error) {
	reports, err := r.run(ctx, true)
	return reports, errors.Join(err, ctx.Err())
}

func (r *Relay) run(ctx context.Context, once bool) (DrainReport, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total DrainReport
		errs  []error
	)
	for _, p := range r.pumps {
		wg.Go(func() {
			report, err := p.run(ctx, once)
			mu.Lock()
			defer mu.Unlock()
			total.add(p.db.Name, report)
			if err != nil {
				errs = append(errs, fmt.Errorf("database %q: %w", p.db.Name, err))
				cancel() // a relay that cannot serve what it was told to serve must be seen
			}
		})
	}
	wg.Wait()
	return total, errors.Join(errs...)
}

// DrainReport says what a Drain did and what it left, over all databases.
type DrainReport struct {
	Delivered, Dead int64
	// Left says for each reason why due events are still pending.
	Left []Leftover
}

// Leftover is a reason for which due events are still pending after a Drain.
type Leftover struct{ Database, What, Why string }

func (d *DrainReport) add(database string, o DrainReport) {
	d.Delivered += o.Delivered
	d.Dead += o.Dead
	for _, l := range o.Left {
		l.Database = database
		d.Left = append(d.Left, l)
	}
}

// newInstance names a process of a relay. It is new at each start, so that a
// restarted relay never mistakes the lease of its former self for its own.
func newInstance() string { return outbox.NewID().String() }
