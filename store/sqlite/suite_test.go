package sqlite

import (
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/store/storetest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness { return harness(t) })
}

func BenchmarkSuite(b *testing.B) {
	storetest.Bench(b, func(b *testing.B) storetest.Harness { return harness(b) }, storetest.BenchConfig{})
}

// harness is a new file. Writers have a connection of their own to it.
func harness(t testing.TB) storetest.Harness {
	name, db := newFile(t)
	tables := storetest.SQL{DB: db, Dialect: outbox.SQLite}
	open := func(change ...func(*Config)) func(testing.TB) relay.Store {
		return func(t testing.TB) relay.Store {
			return openStore(t, name, append(change, func(c *Config) { c.PublishTimeout = time.Second })...)
		}
	}
	return storetest.Harness{
		Connect: open(), Begin: tables.Begin, Look: tables.Look, Pause: tables.Pause,
		Caps: storetest.Caps{
			AnyKey:         true,
			ShortRetention: open(func(c *Config) { c.Retention, c.DeadRetention = time.Second, time.Second }),
			NoRetention:    open(func(c *Config) { c.Retention = NoRetention }),
		},
	}
}
