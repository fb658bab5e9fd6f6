package postgres

import (
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
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

// setup is an outbox in a database, used by roles with the least
// rights: the store's, the writer's; the owner looks into the tables.
type setup struct {
	*database
	names outbox.Names
	// URLs of the roles that have what Grants gives.
	relay, writer string
	storetest.SQL
	change []func(*Config)
}

type option struct {
	// in is the database; a new one if nil.
	in       *database
	names    outbox.Names
	doorbell outbox.Doorbell
	change   func(*Config)
}

// database is a database with roles that own nothing.
type database struct {
	pg    *testenv.PG
	admin string
	db    *sql.DB
	// Names of the roles, and URLs of them.
	relayRole, writerRole, monitorRole string
	// through makes of a role's URL the one that stores use: a pooler's.
	through func(url string) string
	schemas atomic.Int64
}

// databaseOption is what a test's database is like.
type databaseOption struct {
	pg       *testenv.PG
	encoding string
	// roles is run for each role; %s is its name.
	roles  string
	pooler *testenv.PgBouncerConfig
}

func newDatabase(t testing.TB, o databaseOption) *database {
	t.Helper()
	if o.pg == nil {
		o.pg = testenv.Postgres(t)
	}
	if o.encoding == "" {
		o.encoding = "UTF8"
	}
	d := &database{pg: o.pg, admin: o.pg.Database(t, testenv.Encoding(o.encoding)), through: func(url string) string { return url }}
	d.relayRole, d.writerRole, d.monitorRole = d.pg.Role(t, ""), d.pg.Role(t, ""), d.pg.Role(t, "")
	for _, role := range []string{d.relayRole, d.writerRole} {
		if o.roles != "" {
			d.pg.Exec(t, d.admin, fmt.Sprintf(o.roles, identifier(role)))
		}
	}
	if o.pooler != nil {
		d.through = testenv.PgBouncer(t, d.pg, *o.pooler).URL
	}
	db, err := sql.Open("pgx", d.admin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d.db = db
	return d
}

// newSetup makes an outbox in a schema of its own, with the rights of Grants.
func newSetup(t testing.TB, o option) *setup {
	t.Helper()
	if o.in == nil {
		o.in = newDatabase(t, databaseOption{})
	}
	d := o.in
	if o.names.Schema == "" {
		o.names.Schema = fmt.Sprintf("case_%d", d.schemas.Add(1))
	}
	s := &setup{database: d, names: o.names.WithDefaults(outbox.Postgres)}
	var script strings.Builder
	fmt.Fprintf(&script, "CREATE SCHEMA IF NOT EXISTS %s;\n", identifier(s.names.Schema))
	if err := outbox.Print(&script, outbox.FormatSQL, outbox.Postgres, s.names, outbox.MigrationOptions{Doorbell: o.doorbell}); err != nil {
		t.Fatal(err)
	}
	script.WriteString(";\n" + strings.Join(Grants(s.names, Roles{Writer: d.writerRole, Relay: d.relayRole, Monitor: d.monitorRole}), ";\n"))
	s.pg.Exec(t, d.admin, script.String())
	s.relay, s.writer = testenv.As(t, d.admin, d.relayRole), testenv.As(t, d.admin, d.writerRole)
	if o.change != nil {
		s.change = append(s.change, o.change)
	}
	s.SQL = storetest.SQL{DB: d.db, Dialect: outbox.Postgres, Names: s.names}
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
	c := Config{URL: s.through(s.relay), DirectURL: s.relay, Names: s.names}
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
