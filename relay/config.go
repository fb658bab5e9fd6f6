package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"
)

// Config says what a [Relay] moves from where to where. Databases, Brokers and
// Routes are required; the zero value of each other field is its default.
type Config struct {
	// Databases are the outboxes to serve.
	Databases []Database
	// Brokers are the destination systems, by the name that routes use. The
	// caller closes them after Run has returned.
	Brokers map[string]Broker
	// Routes say which events go where. The first match wins; an event that
	// none matches is pending and reported as having no route.
	Routes []Route

	// Lease is how long a relay that has stopped renewing keeps its lanes: the
	// time after which a killed relay's events move on. At least twice
	// PublishTimeout. Default 10s.
	Lease time.Duration
	// PublishTimeout bounds one call of a broker. Default 5s.
	PublishTimeout time.Duration
	// DrainTimeout is how long Run waits for calls on their way and their
	// settling after its context ended. Default 20s.
	DrainTimeout time.Duration
	// Memory bounds the payload bytes in memory over all databases.
	// Default 64 MiB.
	Memory int64
	// Active bounds how many relays of an outbox own lanes; the others stand by.
	// 1 is a leader with standbys. Default 0: all of them share.
	Active int

	// Host and Version describe this relay to people. Default: the host's name;
	// "devel".
	Host, Version string
	// Logger receives state changes. Default: none.
	Logger *slog.Logger
	// PlainKeys writes keys into logs as they are, not hashed. Default false.
	PlainKeys bool
}

// Database is one outbox.
type Database struct {
	// Name is unique among the databases; it is part of the events' source.
	Name string
	// Store reads and settles it. The caller closes it after Run has returned.
	Store Store
	// Claim is ClaimLanes or ClaimCompeting. Default ClaimLanes.
	Claim string
	// PollInterval is the longest time between two looks at the table.
	// Default 500ms.
	PollInterval time.Duration
	// SweepInterval is how often held keys and housekeeping are looked after
	// when nothing else asks for it. Default 2s.
	SweepInterval time.Duration
	// Batch is the number of events of one fetch. Default 4000, and 100 with
	// ClaimCompeting.
	Batch int
	// WhenFull says what competing claims do after a full batch: WhenFullAgain
	// claims again at once, WhenFullWait waits for PollInterval.
	// Default WhenFullAgain.
	WhenFull string
	// OnError says what competing claims do after a failed event: OnErrorStop
	// ends the batch, OnErrorContinue sends the rest. Default OnErrorStop.
	OnError string
}

// The values of [Database].Claim, WhenFull and OnError.
const (
	ClaimLanes      = "lanes"
	ClaimCompeting  = "competing"
	WhenFullAgain   = "again"
	WhenFullWait    = "wait"
	OnErrorStop     = "stop"
	OnErrorContinue = "continue"
)

// Route maps events to a broker and a destination there.
type Route struct {
	// Topic is a pattern: * matches any text, dots too. Default "*".
	Topic string
	// Database limits the route to one database. Default: all.
	Database string
	// Broker names the broker. Default "default".
	Broker string
	// Destination is the name at the broker, a template of {topic}, {key},
	// {type}, {database} and {header.NAME}. Default: the format's, "{topic}"
	// but for debezium.
	Destination string
	// Format is how an event becomes a message: cloudevents, structured, raw,
	// debezium or watermill. Default cloudevents.
	Format string
	// Source is the CloudEvents source. Default "postrider/<database>".
	Source string
	// Headers are added to each message of the route; the event's own win.
	Headers map[string]string
	// OnFailure says what happens to an event that failed for good: OnFailureBlock
	// blocks its key until an operator acts, OnFailureDeadLetter moves it to the
	// dead letters. Default: block for an event with a key, dead_letter for one
	// without.
	OnFailure string
	// MaxAttempts is the number of rejections after which an event has failed
	// for good. Default 0: never.
	MaxAttempts int
}

// The values of [Route].OnFailure.
const (
	OnFailureBlock      = "block"
	OnFailureDeadLetter = "dead_letter"
)

func (c Config) withDefaults() Config {
	c.Lease = orDefault(c.Lease, 10*time.Second)
	c.PublishTimeout = orDefault(c.PublishTimeout, 5*time.Second)
	c.DrainTimeout = orDefault(c.DrainTimeout, 20*time.Second)
	c.Memory = orDefault(c.Memory, 64<<20)
	c.Version = orDefault(c.Version, "devel")
	if c.Host == "" {
		c.Host, _ = os.Hostname()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	databases := make([]Database, len(c.Databases))
	for i, d := range c.Databases {
		databases[i] = d.withDefaults()
	}
	c.Databases = databases
	routes := make([]Route, len(c.Routes))
	for i, r := range c.Routes {
		r.Topic = orDefault(r.Topic, "*")
		r.Broker = orDefault(r.Broker, "default")
		r.Format = orDefault(r.Format, "cloudevents")
		routes[i] = r
	}
	c.Routes = routes
	return c
}

func (d Database) withDefaults() Database {
	d.Claim = orDefault(d.Claim, ClaimLanes)
	d.PollInterval = orDefault(d.PollInterval, 500*time.Millisecond)
	d.SweepInterval = orDefault(d.SweepInterval, 2*time.Second)
	if d.Claim == ClaimCompeting {
		d.Batch = orDefault(d.Batch, 100)
	}
	d.Batch = orDefault(d.Batch, 4000)
	d.WhenFull = orDefault(d.WhenFull, WhenFullAgain)
	d.OnError = orDefault(d.OnError, OnErrorStop)
	return d
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// validate reports every error at once, each with the path of its field.
func (c Config) validate() error {
	var errs []error
	bad := func(path, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
	if len(c.Databases) == 0 {
		bad("databases", "none given")
	}
	if len(c.Routes) == 0 {
		bad("routes", "none given")
	}
	names := map[string]bool{}
	for i, d := range c.Databases {
		path := fmt.Sprintf("databases[%d]", i)
		if d.Name == "" {
			bad(path+".name", "empty")
		}
		if names[d.Name] {
			bad(path+".name", "%q is used twice", d.Name)
		}
		names[d.Name] = true
		if d.Store == nil {
			bad(path+".store", "none given")
		}
		if d.PollInterval < 0 || d.SweepInterval < 0 || d.Batch < 0 {
			bad(path, "negative interval or batch")
		}
		oneOf(bad, path+".claim", d.Claim, ClaimLanes, ClaimCompeting)
		oneOf(bad, path+".when_full", d.WhenFull, WhenFullAgain, WhenFullWait)
		oneOf(bad, path+".on_error", d.OnError, OnErrorStop, OnErrorContinue)
		if _, ok := d.Store.(Claimer); d.Claim == ClaimCompeting && d.Store != nil && !ok {
			bad(path+".claim", "this store has no competing claims")
		}
	}
	for i, r := range c.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		if b, ok := c.Brokers[r.Broker]; !ok || b == nil {
			bad(path+".broker", "no broker is named %q", r.Broker)
		}
		if r.Database != "" && !names[r.Database] {
			bad(path+".database", "no database is named %q", r.Database)
		}
		if r.MaxAttempts < 0 {
			bad(path+".max_attempts", "negative")
		}
		oneOf(bad, path+".on_failure", r.OnFailure, "", OnFailureBlock, OnFailureDeadLetter)
		if _, err := compileRoute(r); err != nil {
			bad(path, "%v", err)
		}
	}
	if c.Lease < 2*c.PublishTimeout {
		bad("relay.lease", "%v is shorter than twice relay.publish_timeout (%v)", c.Lease, c.PublishTimeout)
	}
	for path, d := range map[string]time.Duration{
		"relay.lease": c.Lease, "relay.publish_timeout": c.PublishTimeout, "relay.drain_timeout": c.DrainTimeout,
	} {
		if d < 0 {
			bad(path, "negative")
		}
	}
	if c.Memory < 1<<20 {
		bad("relay.memory", "%d bytes are less than 1 MiB", c.Memory)
	}
	if c.Active < 0 {
		bad("relay.active", "negative")
	}
	return errors.Join(errs...)
}

func oneOf(bad func(path, format string, args ...any), path, v string, allowed ...string) {
	if slices.Contains(allowed, v) {
		return
	}
	bad(path, "%q is not one of %s", v, strings.Trim(strings.Join(allowed, ", "), ", "))
}
