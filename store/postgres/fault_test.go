package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// run executes SQL as a user and returns its error.
func run(t testing.TB, url, sql string) error {
	t.Helper()
	conn, err := pgconn.Connect(t.Context(), url)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql).ReadAll()
	return err
}

// insert writes n events.
func (s *setup) insert(t testing.TB, n int) {
	t.Helper()
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 't', 'k' || i, '\x01' FROM generate_series(1, $1::int) i`, n)
}

func fetchAll(ctx context.Context, s *Store) (relay.Fetched, error) {
	return s.Fetch(ctx, relay.FetchQuery{Rows: 1000, Bytes: 1 << 20})
}

func TestS03_AnOldTransactionHidesNothing(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	old, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback()
	if _, err := old.Exec(`SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	s.insert(t, 100)
	if f, err := fetchAll(t.Context(), store); err != nil || len(f.Rows) != 100 {
		t.Errorf("%d rows of 100, %v", len(f.Rows), err)
	}
}

func TestS39_TerminatedBackendsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	s.insert(t, 10)
	for range 3 {
		if f, err := fetchAll(t.Context(), store); err != nil || len(f.Rows) != 10 {
			t.Fatalf("%d rows, %v", len(f.Rows), err)
		}
		s.pg.TerminateBackends(t, "usename = '"+s.relayRole+"'")
		eventually(t, "it works again", func() bool { _, err := fetchAll(t.Context(), store); return err == nil })
	}
}

func TestRestart_TheStoreWorksAgain(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{pg: testenv.StartPostgres(t, testenv.PGConfig{})})
	s := newSetup(t, option{in: d})
	store := s.open(t)
	s.insert(t, 10)
	for _, stop := range []func(){d.pg.Kill, d.pg.Stop} {
		stop()
		if _, err := fetchAll(t.Context(), store); err == nil {
			t.Error("fetch from a server that is down")
		}
		d.pg.Start()
		eventually(t, "it works again", func() bool { f, err := fetchAll(t.Context(), store); return err == nil && len(f.Rows) == 10 })
	}
}

func TestS41_AReadOnlyServerIsLeft(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{pg: testenv.StartPostgres(t, testenv.PGConfig{})})
	s := newSetup(t, option{in: d})
	store := s.open(t)
	s.insert(t, 3)
	f, err := fetchAll(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	set := func(value string) {
		d.pg.Exec(t, d.pg.Admin(), `ALTER SYSTEM SET default_transaction_read_only = `+value)
		d.pg.Exec(t, d.pg.Admin(), `SELECT pg_reload_conf()`)
	}
	set("on")
	eventually(t, "fetch is refused", func() bool { _, err := fetchAll(t.Context(), store); return errors.Is(err, errNotPrimary) })
	mark := relay.Settlement{Marks: []relay.Mark{{Ref: f.Rows[0].Ref, Held: relay.HeldRetry, Attempts: 1}}}
	if _, err := store.Settle(t.Context(), mark); sqlState(err) != stateReadOnly {
		t.Errorf("settle: %v", err)
	}
	set("off")
	eventually(t, "it works again", func() bool {
		f, err := fetchAll(t.Context(), store)
		return err == nil && len(f.Rows) == 3 && f.Rows[0].Attempts == 0
	})
}

func TestS42_OneConnectionIsEnough(t *testing.T) {
	t.Parallel()
	for _, conns := range []int{1, 2} {
		s := newSetup(t, option{change: func(c *Config) { c.MaxConns = conns }})
		store := s.open(t)
		s.insert(t, 200)
		ctx, cancel := context.WithCancel(t.Context())
		var listener sync.WaitGroup
		listener.Go(func() { _ = store.Listen(ctx, func() {}) })
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				f, err := store.Fetch(t.Context(), relay.FetchQuery{Rows: 20, Bytes: 1 << 20})
				if err == nil {
					_, err = store.Settle(t.Context(), relay.Settlement{Delivered: refsOf(f.Rows)})
				}
				if err == nil {
					_, err = store.Keep(t.Context())
				}
				if err == nil {
					_, err = store.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: fmt.Sprint(i)}, Claim: relay.ClaimLanes})
				}
				if err == nil {
					_, err = store.Compete(t.Context(), 5, func(_ context.Context, rows []relay.Row) relay.Settlement {
						return relay.Settlement{Delivered: refsOf(rows)}
					})
				}
				if err != nil {
					t.Errorf("with %d connections: %v", conns, err)
				}
			})
		}
		group.Wait()
		cancel()
		listener.Wait()
	}
}

func refsOf(rows []relay.Row) []relay.Ref {
	out := make([]relay.Ref, len(rows))
	for i, r := range rows {
		out[i] = r.Ref
	}
	return out
}

func TestS35_ListenNoticesATransactionPooler(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{pooler: &testenv.PgBouncerConfig{PoolMode: "transaction", PoolSize: 2}})
	s := newSetup(t, option{in: d})
	through := s.open(t, func(c *Config) { c.DirectURL = "" })
	err := through.Listen(t.Context(), func() { t.Error("rang") })
	if err == nil || !strings.Contains(relay.HintOf(err), "direct_url") {
		t.Errorf("listen through the pooler: %v, hint %q", err, relay.HintOf(err))
	}
	s.insert(t, 5)
	if f, err := fetchAll(t.Context(), through); err != nil || len(f.Rows) != 5 {
		t.Errorf("delivery is correct either way: %d rows, %v", len(f.Rows), err)
	}
	rings := listen(t, s.open(t))
	eventually(t, "the direct listener rings", func() bool { return rings.Load() > 0 })
}

// listen counts the rings of a store until the test ends.
func listen(t testing.TB, store *Store) *atomic.Int64 {
	t.Helper()
	var rings atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if err := store.Listen(ctx, func() { rings.Add(1) }); ctx.Err() == nil {
			t.Errorf("listen: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); group.Wait() })
	eventually(t, "listening", func() bool { return rings.Load() > 0 })
	return &rings
}

func TestS47_TheListenerIsNeverInATransaction(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	listen(t, s.open(t))
	eventually(t, "idle", func() bool {
		return s.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND query LIKE 'UNLISTEN%' AND state = 'idle' AND xact_start IS NULL`, s.relayRole) == 1
	})
}

func TestS51_NoCrosstalkOfNotifyOrLeases(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{})
	a, b := newSetup(t, option{in: d}), newSetup(t, option{in: d, names: outbox.Names{Schema: "tenant_b"}})
	sa, sb := a.open(t), b.open(t)
	ringsA, ringsB := listen(t, sa), listen(t, sb)
	before := ringsA.Load()
	eventually(t, "b rings", func() bool {
		if err := errors.Join(sa.Arm(t.Context()), sb.Arm(t.Context())); err != nil {
			t.Fatal(err)
		}
		b.insert(t, 1)
		time.Sleep(20 * time.Millisecond)
		return ringsB.Load() > 1
	})
	if ringsA.Load() != before {
		t.Error("a rang for an insert into b")
	}
	if f, err := fetchAll(t.Context(), sa); err != nil || len(f.Rows) != 0 {
		t.Errorf("a fetched %d rows of b, %v", len(f.Rows), err)
	}
	fa, err1 := sa.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: "x"}, Claim: relay.ClaimLanes})
	fb, err2 := sb.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: "x"}, Claim: relay.ClaimCompeting})
	la, err3 := sa.Claim(t.Context(), fa, relay.AllLanes)
	lb, err4 := sb.Claim(t.Context(), fb, relay.AllLanes)
	if err := errors.Join(err1, err2, err3, err4); err != nil || la.Len() != 256 || lb.Len() != 256 {
		t.Errorf("%d and %d lanes, %v", la.Len(), lb.Len(), err)
	}
}

func TestS38_NoAdvisoryLocks(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{pooler: &testenv.PgBouncerConfig{PoolMode: "transaction", PoolSize: 3}})
	s := newSetup(t, option{in: d})
	var group sync.WaitGroup
	for i := range 20 {
		store := s.open(t)
		group.Go(func() {
			f, err := store.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: fmt.Sprint(i)}, Claim: relay.ClaimLanes})
			if err == nil {
				_, err = store.Claim(t.Context(), f, relay.AllLanes)
			}
			if err == nil {
				_, err = store.Keep(t.Context())
			}
			if err == nil && i%2 == 0 {
				err = store.Leave(t.Context(), f)
			}
			if err != nil {
				t.Errorf("relay %d: %v", i, err)
			}
		})
	}
	group.Wait()
	if n := s.Count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("%d advisory locks", n)
	}
}

func TestS45_TheDoorbellNeverFailsAWriter(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{roles: `ALTER ROLE %s SET search_path = ''`})
	s := newSetup(t, option{in: d})
	store := s.open(t)
	rings := listen(t, store)
	if err := store.Arm(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := rings.Load()
	into := s.names.Expand(outbox.Postgres, `INSERT INTO {{outbox}} (topic, key, payload) `)
	if err := run(t, s.writer, into+`VALUES ('t', 'large', convert_to(repeat('x', 10485760), 'UTF8'))`); err != nil {
		t.Errorf("10 MiB: %v", err)
	}
	if err := run(t, s.writer, `BEGIN; `+into+`SELECT 't', 'k' || i, '\x01' FROM generate_series(1, 10000) i; COMMIT`); err != nil {
		t.Errorf("10,000 rows: %v", err)
	}
	eventually(t, "ring", func() bool {
		if rings.Load() > before {
			return true
		}
		_ = store.Arm(t.Context())
		return run(t, s.writer, into+`VALUES ('t', 'k', 'x')`) != nil
	})
	if err := run(t, s.writer, into+`VALUES ('t', repeat('k', 8000), 'x')`); err == nil || !strings.Contains(err.Error(), "key_length") {
		t.Errorf("a key of 8,000 bytes: %v", err)
	}
	// A flag far ahead, left by a stepped clock or another program, rings nobody.
	s.Exec(t, `SELECT setval(`+literal(s.names.Expand(outbox.Postgres, "{{bell}}"))+`::regclass, 9000000000000000)`)
	if err := run(t, s.writer, into+`VALUES ('t', 'k', 'x')`); err != nil {
		t.Error(err)
	}
}

func TestDoorbell_WithoutTriggerOrRightsThePollWorks(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"no trigger": `DROP TRIGGER {{name:outbox_bell}} ON {{outbox}}`,
		"no right":   `REVOKE UPDATE ON SEQUENCE {{bell}} FROM /relay/`,
	} {
		s := newSetup(t, option{change: func(c *Config) { c.Doorbell = DoorbellOn }})
		s.pg.Exec(t, s.admin, strings.ReplaceAll(s.names.Expand(outbox.Postgres, sql), "/relay/", identifier(s.relayRole)))
		store := s.store(t)
		server, err := store.Open(t.Context())
		if err != nil || len(server.Findings) == 0 || !strings.Contains(server.Findings[len(server.Findings)-1].Problem, "doorbell") {
			t.Fatalf("%s: %+v, %v", name, server, err)
		}
		if err := store.Arm(t.Context()); !errors.Is(err, errNoBell) {
			t.Errorf("%s: arm: %v", name, err)
		}
		if err := store.Listen(t.Context(), func() {}); !errors.Is(err, errNoBell) {
			t.Errorf("%s: listen: %v", name, err)
		}
		if f, err := store.Fetch(t.Context(), relay.FetchQuery{Rows: 1, Arm: time.Second}); err != nil || f.Armed {
			t.Errorf("%s: fetch armed %v, %v", name, f.Armed, err)
		}
	}
}

func TestSettle_S32_TheHistoryNeverFailsASettle(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"no right":  `REVOKE INSERT ON {{delivered}} FROM /relay/`,
		"no parts":  `DROP TABLE {{delivered_0}}, {{delivered_1}}, {{delivered_2}}, {{delivered_3}}, {{delivered_4}}, {{delivered_5}}, {{delivered_6}}, {{delivered_7}}`,
		"no column": `ALTER TABLE {{delivered}} DROP COLUMN headers`,
		"locked":    "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, option{})
			store := s.open(t)
			s.insert(t, 10)
			f, err := fetchAll(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			if sql == "" {
				tx, err := s.DB.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				if _, err := tx.Exec(s.names.Expand(outbox.Postgres, `LOCK TABLE {{delivered}} IN ACCESS EXCLUSIVE MODE`)); err != nil {
					t.Fatal(err)
				}
			} else {
				s.pg.Exec(t, s.admin, strings.ReplaceAll(s.names.Expand(outbox.Postgres, sql), "/relay/", identifier(s.relayRole)))
			}
			out, err := store.Settle(t.Context(), relay.Settlement{Delivered: refsOf(f.Rows)})
			if err != nil || out.Missed != 0 || !errors.Is(out.History, relay.ErrNoHistory) {
				t.Errorf("%+v, %v", out, err)
			}
			if n := s.Count(t, `SELECT count(*) FROM {{outbox}}`); n != 0 {
				t.Errorf("%d rows left", n)
			}
		})
	}
}

func TestKeep_NeverWaitsForAReader(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{change: func(c *Config) { c.Retention = time.Second }})
	store := s.open(t)
	s.insert(t, 10)
	f, err := fetchAll(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Settle(t.Context(), relay.Settlement{Delivered: refsOf(f.Rows)}); err != nil {
		t.Fatal(err)
	}
	reader, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Exec(s.names.Expand(outbox.Postgres, `SELECT count(*) FROM {{delivered}}`)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(1500 * time.Millisecond); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if k, err := store.Keep(t.Context()); err != nil || k.Removed != 0 || k.More {
			t.Fatalf("under a reader: %+v, %v", k, err)
		}
	}
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "emptied", func() bool {
		_, err := store.Keep(t.Context())
		return err == nil && s.Count(t, `SELECT count(*) FROM {{delivered}}`) == 0
	})
}

func TestRotation_APasswordIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	var url atomic.Value
	url.Store(s.relay)
	store := s.open(t, func(c *Config) {
		c.URL = ""
		c.URLFunc = func(context.Context) (string, error) { return url.Load().(string), nil }
	})
	s.pg.Exec(t, s.admin, `ALTER ROLE `+identifier(s.relayRole)+` PASSWORD 'rotated'`)
	s.pg.TerminateBackends(t, "usename = '"+s.relayRole+"'")
	_, err := fetchAll(t.Context(), store)
	_, err2 := fetchAll(t.Context(), store)
	if err = errors.Join(err, err2); err == nil || strings.Contains(err.Error(), testenv.Password) {
		t.Errorf("with the old password: %v", err)
	}
	url.Store(strings.Replace(s.relay, testenv.Password, "rotated", 1))
	eventually(t, "it works again", func() bool { _, err := fetchAll(t.Context(), store); return err == nil })
}
