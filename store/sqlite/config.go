package sqlite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// History says how much of a delivered event is kept.
type History string

const (
	// HistoryFull keeps the whole event: it can be replayed.
	HistoryFull History = "full"
	// HistoryHead leaves payload and headers out: such an event cannot be
	// replayed.
	HistoryHead History = "head"
)

// NoRetention as Config.Retention keeps no history: delivered rows are deleted.
const NoRetention time.Duration = -1

// Config says where the outbox is and how it is kept. Only URL is required.
type Config struct {
	// URL is "sqlite:FILE" or the file's name alone. The name is taken as it
	// is: no options, no percent-encoding. The file must exist.
	URL string
	// Names are the names of the tables. Default table and prefix outbox; the
	// schema can only be main.
	Names outbox.Names
	// Retention is how long delivered rows are kept in the history, at least
	// 1 s. Default 24h; NoRetention keeps none.
	Retention time.Duration
	// History is what is kept of a delivered row. Default HistoryFull.
	History History
	// DeadRetention is how long dead letters are kept. Default 0: for ever.
	DeadRetention time.Duration
	// DurableSettle waits for the disk when delivered rows are settled. Without
	// it a power cut can bring back the rows settled since the last checkpoint,
	// and they are published again. Held rows and dead letters always survive.
	// Default false.
	DurableSettle bool
	// BusyTimeout is how long a statement waits for another process's write
	// lock before it is tried anew. Default 5s.
	BusyTimeout time.Duration
	// PublishTimeout bounds the publish function of Compete. Its lease on the
	// rows is twice that. Default 5s.
	PublishTimeout time.Duration
	// MaxBackoff is the longest wait the relay gives a retry: a retry_at further
	// ahead was written by a clock that has since been set back, and counts as
	// due. Default relay.LongestWait, or the lease of Compete if that is longer.
	MaxBackoff time.Duration
	// GoneAfter is how long a relay's beat must stand still, watched by this
	// process, before its lease row is removed as a leftover. It is not the
	// lease: relays evict each other long before. Default 1m.
	GoneAfter time.Duration
	// WakeInterval is how often the bell looks for new rows while the relay
	// waits and inserts are frequent; when they are rare it looks up to five
	// times less often. A shorter one lowers latency and costs processor time.
	// Default 5ms.
	WakeInterval time.Duration
}

func (c Config) withDefaults() Config {
	c.Names = c.Names.WithDefaults(outbox.SQLite)
	set(&c.Retention, 24*time.Hour)
	set(&c.History, HistoryFull)
	set(&c.BusyTimeout, 5*time.Second)
	set(&c.PublishTimeout, 5*time.Second)
	set(&c.MaxBackoff, max(relay.LongestWait, 4*c.PublishTimeout))
	set(&c.GoneAfter, time.Minute)
	set(&c.WakeInterval, 5*time.Millisecond)
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
		errs = append(errs, fmt.Errorf("schema: SQLite has only main, not %q", c.Names.Schema))
	}
	if c.Retention != NoRetention && c.Retention < time.Second {
		errs = append(errs, fmt.Errorf("retention: %v is below 1s and not NoRetention", c.Retention))
	}
	if c.History != HistoryFull && c.History != HistoryHead {
		errs = append(errs, fmt.Errorf("history: %q is neither full nor head", c.History))
	}
	for name, d := range map[string]time.Duration{
		"dead_retention": c.DeadRetention, "busy_timeout": c.BusyTimeout, "publish_timeout": c.PublishTimeout,
		"max_backoff": c.MaxBackoff, "gone_after": c.GoneAfter, "wake_interval": c.WakeInterval,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: %v is negative", name, d))
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
