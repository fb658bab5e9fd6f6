package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Doorbell says whether the store wakes the relay by NOTIFY.
type Doorbell string

const (
	// DoorbellAuto uses the doorbell if its trigger is installed.
	DoorbellAuto Doorbell = "auto"
	// DoorbellOn is DoorbellAuto with a [relay.Finding] if there is no trigger.
	DoorbellOn Doorbell = "on"
	// DoorbellOff neither arms nor listens.
	DoorbellOff Doorbell = "off"
)

// History says how much of a delivered event is kept.
type History string

const (
	// HistoryFull keeps the whole event: it can be replayed.
	HistoryFull History = "full"
	// HistoryHead leaves payload and headers out; it halves what the history
	// writes, and its events cannot be replayed.
	HistoryHead History = "head"
)

// NoRetention as Config.Retention keeps no history: delivered rows are deleted.
const NoRetention time.Duration = -1

// Config configures a Store. URL or URLFunc is required.
type Config struct {
	// URL is the connection string, postgres://… or key=value.
	URL string
	// URLFunc, if set, is asked for the connection string before each new
	// connection, so that a rotated password needs no restart. Called
	// concurrently.
	URLFunc func(context.Context) (string, error)
	// DirectURL is where the doorbell listens if a pooler stands behind URL.
	// Default: as URL.
	DirectURL string
	// DirectURLFunc is to DirectURL what URLFunc is to URL. Default: as URL.
	DirectURLFunc func(context.Context) (string, error)
	// Names are the names of the tables. Default schema public, table outbox.
	Names outbox.Names
	// Retention is how long delivered rows are kept in the history, at least 1 s.
	// Default 24h; NoRetention keeps none.
	Retention time.Duration
	// History is what is kept of a delivered row. Default HistoryFull.
	History History
	// DeadRetention is how long dead letters are kept. Default 0, for ever.
	DeadRetention time.Duration
	// DurableSettle waits for the disk when delivered rows are settled. Without
	// it a crash of the database server can bring back the rows settled in its
	// last moments, and they are published again. Default false.
	DurableSettle bool
	// Doorbell is whether to use the doorbell. Default DoorbellAuto.
	Doorbell Doorbell
	// MaxBackoff is the longest wait the relay gives a retry: a retry_at further
	// ahead was written by a clock that has since been set back, and counts as
	// due. Default relay.LongestWait.
	MaxBackoff time.Duration
	// PublishTimeout bounds the publish of a competing claim. Default 5s.
	PublishTimeout time.Duration
	// StatementTimeout bounds each statement on the server; a method gives up a
	// silent server 5 s later. Default 30s.
	StatementTimeout time.Duration
	// ConnectTimeout bounds the wait for a connection: for a free one of the
	// pool as for a new one. Default 5s.
	ConnectTimeout time.Duration
	// MaxConns is the size of the pool, at least 1. Default 3.
	MaxConns int
	// ApplicationName is shown in pg_stat_activity. Default "postrider".
	ApplicationName string
}

func (c Config) withDefaults() Config {
	c.Names = c.Names.WithDefaults(outbox.Postgres)
	set(&c.Retention, 24*time.Hour)
	set(&c.History, HistoryFull)
	set(&c.Doorbell, DoorbellAuto)
	set(&c.MaxBackoff, relay.LongestWait)
	set(&c.PublishTimeout, 5*time.Second)
	set(&c.StatementTimeout, 30*time.Second)
	set(&c.ConnectTimeout, 5*time.Second)
	set(&c.MaxConns, 3)
	set(&c.ApplicationName, "postrider")
	return c
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	if c.URL == "" && c.URLFunc == nil {
		errs = append(errs, errors.New("url: empty"))
	}
	if c.URL != "" {
		if _, err := pgxpool.ParseConfig(c.URL); err != nil {
			errs = append(errs, fmt.Errorf("url: %w", redact(err)))
		}
	}
	if c.DirectURL != "" {
		if _, err := pgconn.ParseConfig(c.DirectURL); err != nil {
			errs = append(errs, fmt.Errorf("direct_url: %w", redact(err)))
		}
	}
	if c.Retention != NoRetention && c.Retention < time.Second {
		errs = append(errs, fmt.Errorf("retention: %v is below 1s and not NoRetention", c.Retention))
	}
	if c.History != HistoryFull && c.History != HistoryHead {
		errs = append(errs, fmt.Errorf("history: %q is neither full nor head", c.History))
	}
	if c.Doorbell != DoorbellAuto && c.Doorbell != DoorbellOn && c.Doorbell != DoorbellOff {
		errs = append(errs, fmt.Errorf("doorbell: %q is not auto, on or off", c.Doorbell))
	}
	if c.DeadRetention < 0 {
		errs = append(errs, fmt.Errorf("dead_retention: %v is negative", c.DeadRetention))
	}
	if c.MaxConns < 1 {
		errs = append(errs, fmt.Errorf("max_conns: %d is below 1", c.MaxConns))
	}
	if err := c.Names.Validate(outbox.Postgres); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return relay.Misconfigured(err)
	}
	return nil
}
