package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// load is a number of writers that insert and commit until the test ends.
type load struct{ commits []atomic.Int64 }

// load starts writers, each with a connection of its own.
func (s *setup) load(t *testing.T, writers int) *load {
	t.Helper()
	db, err := sql.Open("pgx", s.writer)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxIdleConns(writers)
	l := &load{make([]atomic.Int64, writers)}
	stop := make(chan struct{})
	var group sync.WaitGroup
	insert := s.names.Expand(outbox.Postgres, `INSERT INTO {{outbox}} (topic, key, payload) VALUES ('t', $1, 'x')`)
	for i := range writers {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := db.Exec(insert, fmt.Sprint("k", i)); err != nil {
					t.Errorf("writer: %v", err)
					return
				}
				l.commits[i].Add(1)
			}
		})
	}
	t.Cleanup(func() { close(stop); group.Wait(); db.Close() })
	return l
}

// passes waits until each writer has begun and committed an insert from now on.
func (l *load) passes(t *testing.T) {
	t.Helper()
	for i := range l.commits {
		from := l.commits[i].Load()
		eventually(t, "commits of the writers", func() bool { return l.commits[i].Load() >= from+2 })
	}
}

// ear counts the bells of an outbox. PostgreSQL delivers notifications in the
// order of their commits, so what is counted after a mark was sent after it.
type ear struct {
	rings atomic.Int64
	marks chan int64
	mark  func() int64 // how many rang since the last mark
}

func (s *setup) ear(t *testing.T) *ear {
	t.Helper()
	e := &ear{marks: make(chan int64)}
	cfg, err := pgconn.ParseConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	bell := fmt.Sprint("postrider_", s.Count(t, `SELECT `+literal(s.names.Expand(outbox.Postgres, "{{outbox}}"))+`::regclass::oid::bigint`))
	mark := "mark_" + bell
	ctx, cancel := context.WithCancel(context.Background())
	cfg.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) {
		if n.Channel == bell {
			e.rings.Add(1)
			return
		}
		select {
		case e.marks <- e.rings.Swap(0):
		case <-ctx.Done():
		}
	}
	pg, err := pgconn.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pg.Exec(t.Context(), "LISTEN "+bell+"; LISTEN "+mark).ReadAll(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := pg.WaitForNotification(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("wait for notifications: %v", err)
				return
			}
		}
	})
	t.Cleanup(func() { cancel(); group.Wait(); pg.Close(context.Background()) })
	e.mark = func() int64 {
		t.Helper()
		s.Exec(t, `SELECT pg_notify('`+mark+`', '')`)
		return <-e.marks
	}
	return e
}

// TestS46_TheTriggerRingsOnlyWhileARelaySleeps: NOTIFY serialises commits, so
// with 50 writers none is sent while nobody has armed, and none a moment after a
// relay was killed asleep.
func TestS46_TheTriggerRingsOnlyWhileARelaySleeps(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	heard := s.ear(t)
	l := s.load(t, 50)
	silent := func(when string) {
		t.Helper()
		heard.mark()
		l.passes(t)
		if n := heard.mark(); n != 0 {
			t.Errorf("%d rings %s", n, when)
		}
	}
	arm := func() {
		t.Helper()
		if err := store.Arm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.passes(t)
	silent("while nobody slept")

	eventually(t, "a ring while a relay sleeps", func() bool { arm(); return heard.rings.Load() > 0 })
	// The relay was killed: nobody extends the flag, which was armFor ahead.
	time.Sleep(armFor)
	l.passes(t) // those that read the flag before
	silent("more than a second after the relay was killed")

	// One that was woken takes the flag back.
	arm()
	if _, err := store.Fetch(t.Context(), relay.FetchQuery{Rows: 1, Bytes: 1 << 20, Disarm: true}); err != nil {
		t.Fatal(err)
	}
	if s.Count(t, `SELECT count(*) FROM `+s.names.Expand(outbox.Postgres, "{{bell}}")+` WHERE last_value > extract(epoch FROM clock_timestamp()) * 1000`) > 0 {
		t.Error("the flag is up although the relay is awake")
	}
}

// TestS46_WritersAreAsFastWithARelayAwake compares commits with the doorbell's
// trigger in place and nobody asleep with commits into an outbox without a
// trigger, in turns, so that whatever else the machine does meets both. The bench
// measures the ratio; here it must not be that of a NOTIFY with each insert, 0.08
// to 0.21.
func TestS46_WritersAreAsFastWithARelayAwake(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{})
	with, without := newSetup(t, option{in: d}), newSetup(t, option{in: d, doorbell: outbox.DoorbellOff})
	open := func(s *setup) []*sql.DB {
		var all []*sql.DB
		for range 16 {
			db, err := sql.Open("pgx", s.writer)
			if err != nil {
				t.Fatal(err)
			}
			db.SetMaxOpenConns(1)
			t.Cleanup(func() { db.Close() })
			all = append(all, db)
		}
		return all
	}
	round := func(s *setup, writers []*sql.DB) time.Duration {
		insert := s.names.Expand(outbox.Postgres, `INSERT INTO {{outbox}} (topic, key, payload) VALUES ('t', 'k', 'x')`)
		var group sync.WaitGroup
		began := time.Now()
		for _, db := range writers {
			group.Go(func() {
				for range 20 {
					if _, err := db.Exec(insert); err != nil {
						t.Errorf("writer: %v", err)
						return
					}
				}
			})
		}
		group.Wait()
		return time.Since(began)
	}
	a, b := open(with), open(without)
	round(with, a)
	round(without, b)
	var took [2]time.Duration
	for i := range 10 {
		if i%2 == 0 {
			took[0] += round(with, a)
			took[1] += round(without, b)
		} else {
			took[1] += round(without, b)
			took[0] += round(with, a)
		}
	}
	ratio := took[1].Seconds() / took[0].Seconds()
	t.Logf("commits with the doorbell: %.2f of those without", ratio)
	if ratio < 0.3 {
		t.Errorf("commits with the doorbell: %.2f of those without", ratio)
	}
}
