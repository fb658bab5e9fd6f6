package postgres

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/store/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// setup is one database with an outbox in it, used by roles with the least
// rights: the store's, the writer's; the owner looks into the tables.
type setup struct {
	pg    *testenv.PG
	names outbox.Names
	// admin owns the tables, relay and writer have what Grants gives.
	admin, relay, writer string
	storetest.SQL
	// through is the URL that stores use: relay, or a pooler's.
	through string
	change  []func(*Config)
}

type option struct {
	pg       *testenv.PG
	names    outbox.Names
	encoding string
	roles    string // attributes or settings: run for each role, %s is its name
	doorbell outbox.Doorbell
	through  func(t testing.TB, pg *testenv.PG, url string) string
	change   func(*Config)
}

// newSetup makes a database, its tables, and roles with the rights of Grants.
func newSetup(t testing.TB, o option) *setup {
	t.Helper()
	if o.pg == nil {
		o.pg = testenv.Postgres(t)
	}
	if o.encoding == "" {
		o.encoding = "UTF8"
	}
	admin := o.pg.Database(t, testenv.Encoding(o.encoding))
	return newSetupIn(t, o, admin)
}

// newSetupIn makes the tables in a database that is there.
func newSetupIn(t testing.TB, o option, admin string) *setup {
	t.Helper()
	s := &setup{pg: o.pg, names: o.names.WithDefaults(outbox.Postgres), admin: admin}
	if s.names.Schema != "public" {
		s.pg.Exec(t, admin, `CREATE SCHEMA IF NOT EXISTS `+identifier(s.names.Schema))
	}
	var script strings.Builder
	if err := outbox.Print(&script, outbox.FormatSQL, outbox.Postgres, s.names, outbox.MigrationOptions{Doorbell: o.doorbell}); err != nil {
		t.Fatal(err)
	}
	s.pg.Exec(t, admin, script.String())

	relayRole, writerRole := s.pg.Role(t, ""), s.pg.Role(t, "")
	for _, grant := range Grants(s.names, Roles{Writer: writerRole, Relay: relayRole}) {
		s.pg.Exec(t, admin, grant)
	}
	for _, role := range []string{relayRole, writerRole} {
		if o.roles != "" {
			s.pg.Exec(t, admin, fmt.Sprintf(o.roles, identifier(role)))
		}
	}
	s.relay, s.writer = testenv.As(t, admin, relayRole), testenv.As(t, admin, writerRole)
	s.through = s.relay
	if o.through != nil {
		s.through = o.through(t, s.pg, s.relay)
	}
	if o.change != nil {
		s.change = append(s.change, o.change)
	}
	db, err := sql.Open("pgx", admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	s.SQL = storetest.SQL{DB: db, Dialect: outbox.Postgres, Names: s.names}
	return s
}

// open makes a Store of the setup and opens it.
func (s *setup) open(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	store := s.store(t, change...)
	if _, err := store.Open(t.Context()); err != nil {
		t.Fatalf("open: %v", err)
	}
	return store
}

// store makes a Store without opening it.
func (s *setup) store(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	c := Config{URL: s.through, DirectURL: s.relay, Names: s.names}
	for _, f := range append(append([]func(*Config){}, s.change...), change...) {
		f(&c)
	}
	store, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// harness is the setup as the suite wants it.
func (s *setup) harness(t testing.TB) storetest.Harness {
	utf8 := s.Count(t, `SELECT count(*) FROM pg_database WHERE datname = current_database() AND encoding = 6`) == 1
	return storetest.Harness{
		Connect: func(t testing.TB) relay.Store { return s.open(t) },
		Begin:   s.Begin, Look: s.Look, Pause: s.Pause,
		Caps: storetest.Caps{
			Lanes: utf8, Writers: true, AnyKey: utf8,
			NoRetention: func(t testing.TB) relay.Store {
				return s.open(t, func(c *Config) { c.Retention = NoRetention })
			},
			ShortRetention: func(t testing.TB) relay.Store {
				return s.open(t, func(c *Config) { c.Retention, c.DeadRetention = time.Second, time.Second })
			},
		},
	}
}
