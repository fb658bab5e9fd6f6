//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox"
)

// accounts is the number of aggregates, each one's name the key of its events.
const accounts = 30

// fate is what a writer knows of its event.
type fate int

const (
	unknown    fate = iota // the COMMIT got no answer
	committed              // the COMMIT was answered
	rolledBack             // no COMMIT was sent
)

// ledger is what the writers know, for comparison with the table of truth.
type ledger struct {
	mu     sync.Mutex
	events map[string]fate
	errors map[string]int // by text, for a report
}

func (l *ledger) put(ids []string, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.events[id] = f
	}
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors[err.Error()]++
}

// written is the number of events whose COMMIT was answered.
func (l *ledger) written() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.events {
		if f == committed {
			n++
		}
	}
	return n
}

// write starts n writers. The function that it returns stops them.
func (s *stage) write(n int) (stop func()) {
	s.Helper()
	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{})
	if err != nil {
		s.Fatal(err)
	}
	s.ledger.mu.Lock()
	if s.ledger.events == nil {
		s.ledger.events, s.ledger.errors = map[string]fate{}, map[string]int{}
	}
	s.ledger.mu.Unlock()
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	for i := range n {
		writer := &writer{stage: s, outbox: w, rng: rand.New(rand.NewPCG(s.plan.seed, uint64(100+i)))}
		running.Go(func() { writer.run(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	s.Cleanup(stop)
	return stop
}

// writer is one connection of the application. Servers that break are its
// business only in that it connects again.
type writer struct {
	stage  *stage
	outbox *outbox.Writer
	rng    *rand.Rand
	conn   *pgx.Conn
}

func (w *writer) run(ctx context.Context) {
	defer w.hangUp()
	for ctx.Err() == nil {
		// What has begun is finished: a stop in the middle of a COMMIT would
		// only make one more outcome that nobody knows.
		err := w.transaction(context.WithoutCancel(ctx))
		if err == nil {
			continue
		}
		w.stage.ledger.fail(err)
		w.hangUp()
		time.Sleep(20 * time.Millisecond)
	}
}

func (w *writer) hangUp() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // the server may be gone
	w.conn = nil
}

// change is one event with what the table of truth says of it.
type change struct {
	event   outbox.Event
	version int64
}

// transaction changes some accounts and writes events about the changes. One in
// ten is rolled back, some hold their ids for long before they commit.
func (w *writer) transaction(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if w.conn == nil {
		pg := w.stage.primary.Load()
		conn, err := pgx.Connect(ctx, pg.URL(w.stage.writer, w.stage.database))
		if err != nil {
			return err
		}
		w.conn = conn
	}
	// Some tests make transactions read-only by default.
	tx, err := w.conn.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadWrite})
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)

	var ids []string
	for _, n := range w.accounts() {
		made, err := w.change(ctx, tx, fmt.Sprintf("account-%d", n))
		ids = append(ids, made...)
		w.stage.ledger.put(made, rolledBack)
		if err != nil {
			return err
		}
	}
	made, err := w.others(ctx, tx)
	ids = append(ids, made...)
	w.stage.ledger.put(made, rolledBack)
	if err != nil {
		return err
	}
	w.linger()
	if w.rng.IntN(10) == 0 {
		return tx.Rollback(ctx)
	}
	w.stage.ledger.put(ids, unknown)
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.stage.ledger.put(ids, committed)
	return nil
}

// accounts draws one to three of them, in the order in which all writers lock.
func (w *writer) accounts() []int {
	drawn := map[int]bool{}
	for range 1 + w.rng.IntN(3) {
		drawn[1+w.rng.IntN(accounts)] = true
	}
	var sorted []int
	for n := range drawn {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	return sorted
}

// linger keeps a transaction open, so that others draw higher ids and commit
// before it.
func (w *writer) linger() {
	d := time.Duration(w.rng.IntN(20)) * time.Millisecond
	if w.rng.IntN(20) == 0 {
		d = time.Duration(100+w.rng.IntN(300)) * time.Millisecond
	}
	time.Sleep(d)
}

// change locks an account, raises its version with each event, and sometimes
// takes it all back to a savepoint.
func (w *writer) change(ctx context.Context, tx pgx.Tx, name string) (ids []string, err error) {
	inner := tx
	undo := w.rng.IntN(20) == 0
	if undo {
		if inner, err = tx.Begin(ctx); err != nil {
			return nil, err
		}
	}
	var version int64
	if err := inner.QueryRow(ctx, `SELECT version FROM account WHERE name = $1 FOR UPDATE`, name).Scan(&version); err != nil {
		return nil, err
	}
	var changes []change
	for range 1 + w.rng.IntN(3) {
		version++
		changes = append(changes, w.event(name, version))
	}
	if _, err := inner.Exec(ctx, `UPDATE account SET version = $2 WHERE name = $1`, name, version); err != nil {
		return nil, err
	}
	ids, err = w.insert(ctx, inner, changes)
	if err != nil || !undo {
		return ids, err
	}
	w.stage.ledger.put(ids, rolledBack)
	return nil, inner.Rollback(ctx)
}

// others are now and then an event without a key, and one that is due later.
// Neither has a place in its account's order.
func (w *writer) others(ctx context.Context, tx pgx.Tx) (ids []string, err error) {
	var changes []change
	if w.rng.IntN(5) == 0 {
		changes = append(changes, w.event("", 0))
	}
	if w.rng.IntN(10) == 0 {
		c := w.event(fmt.Sprintf("later-%d", w.rng.IntN(5)), 0)
		c.event.AvailableAt = time.Now().Add(time.Duration(w.rng.IntN(1500)) * time.Millisecond)
		changes = append(changes, c)
	}
	return w.insert(ctx, tx, changes)
}

func (w *writer) event(key string, version int64) change {
	return change{outbox.Event{
		ID: outbox.NewID(), Topic: topics[w.rng.IntN(len(topics))], Key: key, Type: "account.changed",
		Payload: fmt.Appendf(nil, `{"account":%q,"version":%d}`, key, version), SubjectVersion: version,
	}, version}
}

// insert writes events as an application does, with the writer or with SQL of
// its own, and notes them in the table of truth.
func (w *writer) insert(ctx context.Context, tx pgx.Tx, changes []change) (ids []string, err error) {
	if len(changes) == 0 {
		return nil, nil
	}
	var batch pgx.Batch
	var events []outbox.Event
	bySQL := w.rng.IntN(4) == 0
	for _, c := range changes {
		e := c.event
		ids = append(ids, e.ID.String())
		events = append(events, e)
		var due *time.Time
		if !e.AvailableAt.IsZero() {
			due = &e.AvailableAt
		}
		if bySQL {
			batch.Queue(`INSERT INTO outbox (event_id, topic, key, payload, subject_version, available_at) VALUES ($1, $2, $3, $4, $5, $6)`,
				e.ID.String(), e.Topic, e.Key, e.Payload, c.version, due)
		}
		batch.Queue(`INSERT INTO truth VALUES ($1, $2, $3, $4, $5)`, e.ID.String(), e.Topic, e.Key, c.version, due)
	}
	if !bySQL {
		if err := w.outbox.Write(ctx, outbox.Pgx(tx), events...); err != nil {
			return ids, err
		}
	}
	return ids, tx.SendBatch(ctx, &batch).Close()
}
