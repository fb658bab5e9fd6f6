package postgres

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

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
