// Package bench measures how fast a database, a relay and a broker are together,
// on the user's own servers, each beside the raw limit of the same run.
//
// It works on tables and a destination of its own, which it makes and removes.
// Figures of different runs are not comparable on a shared machine; the ratios
// of one run are.
package bench

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Topic is the topic of all events of a bench, and with the default route their
// destination.
const Topic = "postrider_bench"

// Prefix begins the names of the bench's tables.
const Prefix = "postrider_bench"

// Env is what a bench runs on.
type Env struct {
	DB      *sql.DB
	Dialect outbox.Dialect
	Names   outbox.Names
	// Store makes a relay's store of the bench's tables that keeps its history
	// for retention; 0 is none.
	Store func(retention time.Duration) (relay.Store, error)
	// Broker makes a broker.
	Broker func() (relay.Broker, error)
	// Raw publishes events as fast as the broker's bare client can; nil stands
	// for Broker.Publish.
	Raw func(ctx context.Context, events []relay.Event) error
	// Log is told what the bench is doing.
	Log func(format string, args ...any)
}

func (e *Env) exec(ctx context.Context, query string, args ...any) error {
	_, err := e.DB.ExecContext(ctx, e.Names.Expand(e.Dialect, query), args...)
	return err
}

// serve runs a relay on the bench's tables until the returned function is called.
func (e *Env) serve(ctx context.Context, retention time.Duration, broker relay.Broker) (*relay.Relay, func() error, error) {
	store, err := e.Store(retention)
	if err != nil {
		return nil, nil, err
	}
	r, err := relay.New(relay.Config{
		Databases: []relay.Database{{Name: "bench", Store: store}},
		Brokers:   map[string]relay.Broker{"default": broker},
		Routes:    []relay.Route{{}},
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return r, func() error {
		cancel()
		err := <-done
		store.Close() //nolint:errcheck // it has nothing to lose
		return err
	}, nil
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / max(d, time.Nanosecond).Seconds() }

// waitFor calls done until it says true.
func waitFor(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// Empty removes the events of earlier runs, and of one that failed.
func (e *Env) Empty(ctx context.Context) error {
	for _, table := range []string{"outbox", "delivered", "dead"} {
		statement := "TRUNCATE {{" + table + "}}"
		if e.Dialect == outbox.SQLite {
			statement = "DELETE FROM {{" + table + "}}"
		}
		if err := e.exec(ctx, statement); err != nil {
			return fmt.Errorf("empty the bench's tables: %w", err)
		}
	}
	return nil
}
