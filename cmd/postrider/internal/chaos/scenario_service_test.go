//go:build linux

package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv"
)

// The server turns read-only with its sockets open, as in a failover behind one
// address, and back: the relays work again, directly and through a pooler, and
// no attempt was counted (check sees to that).
func TestS41_ReadOnlyWithOpenSocketsAndBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{pooled: true})
	s.startRelays()
	stop := s.write(4) // their transactions say READ WRITE
	for range scaled(10, 1) {
		s.flow(100)
		s.broken = true
		s.readOnly("on")
		for _, r := range s.relays {
			r.awaitLine("read-only")
		}
		time.Sleep(2 * s.plan.lease)
		s.readOnly("off")
		s.awaitOwners(len(s.relays))
	}
	s.flow(100)
	s.finish(stop)
}

func (s *stage) readOnly(value string) {
	s.Helper()
	s.note("default_transaction_read_only = %s", value)
	s.pg.Exec(s.T, s.pg.Admin(), `ALTER SYSTEM SET default_transaction_read_only = `+value)
	s.pg.Exec(s.T, s.pg.Admin(), `SELECT pg_reload_conf()`)
}

// SIGTERM at random times: exit code 0 within the drain timeout, nothing counted
// against the events, and where there was time enough no duplicate.
func TestS98_SIGTERMAtRandomTimes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		drain   time.Duration
		latency time.Duration // of the broker, each way
	}{
		{"time enough", 5 * time.Second, 0},
		{"a slow broker", 5 * time.Second, 200 * time.Millisecond},
		{"no time", 100 * time.Millisecond, 0},
		{"no time and a slow broker", 100 * time.Millisecond, 400 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, plan{relays: 2, drain: c.drain, lease: 10 * time.Second, publish: 5 * time.Second})
			s.broken = c.drain < time.Second
			s.toNATS.SetDelay(c.latency)
			s.startRelays()
			stop := s.write(3)
			for range scaled(50, 3) {
				time.Sleep(time.Duration(s.rng.IntN(700)) * time.Millisecond)
				heal := stopRelay(s)
				heal()
			}
			s.toNATS.SetDelay(0)
			s.finish(stop)
		})
	}
}

// A relay that is killed while it sleeps leaves the doorbell armed,
// for at most a second. From then on inserts ring no bell. The writer may INSERT
// into the outbox and nothing else, and has an empty search_path.
func TestS46_Guarantee9_AKilledSleeperCostsTheWritersNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{relays: 1})
	s.startRelays()
	role := s.pg.Role(t, "LOGIN")
	s.pg.Exec(t, s.admin(), postrider(t, "grants", "--writer", role)+`; ALTER ROLE `+role+` SET search_path = ''`)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	connect := func(url string) *pgx.Conn {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(ctx)) })
		return conn
	}
	listener, writer := connect(s.admin()), connect(testenv.As(t, s.admin(), role))
	if _, err := listener.Exec(ctx, `DO $$ BEGIN EXECUTE 'LISTEN postrider_' || 'public.outbox'::regclass::oid; END $$`); err != nil {
		t.Fatal(err)
	}
	insert := func() {
		if _, err := writer.Exec(ctx, `INSERT INTO public.outbox (topic, key, payload) VALUES ('orders', 'k', 'x')`); err != nil {
			t.Fatalf("the writer: %v", err)
		}
	}
	const ahead = `SELECT last_value - (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM outbox_bell`
	s.until("the relay sleeps", func() bool { return s.ask(ahead) > 500 })
	insert()
	if _, err := listener.WaitForNotification(ctx); err != nil {
		t.Fatalf("no bell while a relay sleeps: %v", err)
	}
	s.until("the relay sleeps again", func() bool { return s.ask(ahead) > 500 })
	s.relays[0].kill()
	if left := s.ask(ahead); left > 1000 {
		t.Errorf("armed for %d ms more, at most 1000", left)
	}
	for s.ask(ahead) > 0 { // writers go on meanwhile
		insert()
	}
	for listener.PgConn() != nil { // what rang until then
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		_, err := listener.WaitForNotification(short)
		cancel()
		if err != nil {
			break
		}
	}
	for range 200 {
		insert()
	}
	short, cancelShort := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancelShort()
	if n, err := listener.WaitForNotification(short); err == nil {
		t.Errorf("a bell rang for nobody: %v", n)
	}
}
