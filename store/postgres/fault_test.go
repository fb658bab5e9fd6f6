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
