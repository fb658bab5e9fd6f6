package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Config says where the outbox is and how it is kept. Only URL is required.
type Config struct {
	// URL is "sqlite:FILE" or the file's name alone. The name is taken as it
	// is: no options, no percent-encoding. The file must exist.
	URL string
	// Names are the names of the tables. Schema must be empty or "main".
	Names outbox.Names
	// Retention is how long delivered events are kept. Default 24h; negative
	// keeps none, which is the fastest.
	Retention time.Duration
	// History is what is kept of a delivered event: "full", or "head" for all
	// but the payload. Default "full".
	History string
	// DeadRetention is how long dead letters are kept. Default 0: for ever.
	DeadRetention time.Duration
	// Durable makes the settling of delivered events survive a power cut.
	// Without it a power cut may bring some of the last seconds' events back,
	// and they are sent again. Held events and dead letters always survive.
	// Default false.
	Durable bool
	// BusyTimeout is how long a statement waits for another process's write
	// lock before it is tried anew. Default 5s.
	BusyTimeout time.Duration
	// PublishTimeout bounds the publish function of Compete. Its lease on the
	// rows is twice that. Default 5s.
	PublishTimeout time.Duration
	// LongestRetry is the longest back-off that a relay of this outbox uses. A
	// retry_at further ahead counts as due, so that a stepped clock delays
	// nothing for long. Default 5m.
	LongestRetry time.Duration
	// GoneAfter is how long a relay's beat must stand still, watched by this
	// process, before its lease row is removed as a leftover. It is not the
	// lease: relays evict each other long before. Default 1m.
	GoneAfter time.Duration
	// WakeInterval is how often the bell looks for new rows while it is armed.
	// A shorter one lowers latency and costs processor time when idle.
	// Default 5ms.
	WakeInterval time.Duration
}

func (c Config) withDefaults() Config {
	c.Names = c.Names.WithDefaults(outbox.SQLite)
	setDefault(&c.Retention, 24*time.Hour)
	if c.History == "" {
		c.History = "full"
	}
	setDefault(&c.BusyTimeout, 5*time.Second)
	setDefault(&c.PublishTimeout, 5*time.Second)
	setDefault(&c.LongestRetry, 5*time.Minute)
	setDefault(&c.GoneAfter, time.Minute)
	setDefault(&c.WakeInterval, 5*time.Millisecond)
	return c
}

func setDefault(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

func (c Config) validate() error {
	var errs []error
	file := c.file()
	switch {
	case file == "":
		errs = append(errs, errors.New(`url: empty: want "sqlite:FILE"`))
	case file == ":memory:":
		errs = append(errs, errors.New("url: a database in memory cannot be shared with a relay: want a file"))
	case strings.ContainsRune(file, 0):
		errs = append(errs, errors.New("url: NUL in the file's name"))
	}
	if c.Names.Schema != "main" {
		errs = append(errs, fmt.Errorf("schema %q: SQLite has only %q", c.Names.Schema, "main"))
	}
	if c.History != "full" && c.History != "head" {
		errs = append(errs, fmt.Errorf("history %q: want full or head", c.History))
	}
	for name, d := range map[string]time.Duration{
		"dead_retention": c.DeadRetention, "busy_timeout": c.BusyTimeout, "publish_timeout": c.PublishTimeout,
		"longest_retry": c.LongestRetry, "gone_after": c.GoneAfter, "wake_interval": c.WakeInterval,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s %s: negative", name, d))
		}
	}
	return relay.Misconfigured(errors.Join(errs...))
}

// file is the name of the database file: "sqlite:FILE" and "sqlite:///FILE"
// without what stands before it.
func (c Config) file() string {
	name, isURL := strings.CutPrefix(c.URL, "sqlite:")
	if isURL {
		name, _ = strings.CutPrefix(name, "//")
	}
	return name
}
