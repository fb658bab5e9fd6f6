package outboxsql

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/inbox"
)

func newInbox(t *testing.T, db *database) *inbox.Inbox {
	t.Helper()
	box, err := inbox.New(db.dialect, inbox.Config{Names: db.names})
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestInbox_ARepeatIsNotApplied(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		box := newInbox(t, db)
		db.exec(t, "CREATE TABLE balance (amount int)")
		deliver := func(consumer, id string) bool {
			t.Helper()
			tx := db.begin(t)
			applied, err := box.Process(t.Context(), tx, consumer, inbox.Message{ID: id}, func(context.Context) error {
				return tx.exec("INSERT INTO balance VALUES (1)")
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.commit(); err != nil {
				t.Fatal(err)
			}
			return applied
		}
		for i, c := range []struct {
			consumer, id string
			applied      bool
		}{
			{"a", "1", true},
			{"a", "1", false},
			{"b", "1", true},
			{"a", "2", true},
			// Identities are compared as they are written.
			{"a", "evt-A", true},
			{"a", "evt-a", true},
			{"a", "evt-a ", true},
			{"a", `shop/"My Tenant".outbox/17`, true},
			{"a", `shop/"My Tenant".outbox/17`, false},
			{strings.Repeat("c", 255), strings.Repeat("i", 1_024), true},
			{strings.Repeat("c", 255), strings.Repeat("i", 1_024), false},
		} {
			if got := deliver(c.consumer, c.id); got != c.applied {
				t.Errorf("delivery %d of %.20q to %.20q: applied %t, want %t", i, c.id, c.consumer, got, c.applied)
			}
		}
		if n := db.count(t, "SELECT count(*) FROM balance"); n != 8 {
			t.Errorf("%d changes, want 8", n)
		}
	})
}

func TestInbox_AnErrorOfTheHandlerLeavesTheEventUnapplied(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		box := newInbox(t, db)
		broken := errors.New("broken")
		tx := db.begin(t)
		applied, err := box.Process(t.Context(), tx, "c", inbox.Message{ID: "1"}, func(context.Context) error { return broken })
		if applied || err != broken { //nolint:errorlint // it must be the very error, not a wrapped one
			t.Fatalf("%t, %v", applied, err)
		}
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}
		tx = db.begin(t)
		applied, err = box.Process(t.Context(), tx, "c", inbox.Message{ID: "1"}, func(context.Context) error { return nil })
		if !applied || err != nil {
			t.Fatalf("the second delivery: %t, %v", applied, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestInbox_RefusesBeforeSQL(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, outbox.Names{})
	box := newInbox(t, db)
	for _, c := range []struct{ consumer, id, field string }{
		{"", "1", "consumer"},
		{"c", "", "id"},
		{"c\x00", "1", "consumer"},
		{"c", "\xff", "id"},
		{strings.Repeat("c", 256), "1", "consumer"},
		{"c", strings.Repeat("i", 1_025), "id"},
	} {
		tx := db.begin(t)
		_, err := box.Process(t.Context(), tx, c.consumer, inbox.Message{ID: c.id}, nil)
		if invalid, ok := errors.AsType[*inbox.FieldError](err); !ok || invalid.Field != c.field {
			t.Errorf("%.20q, %.20q: got %v", c.consumer, c.id, err)
		}
		if err := tx.rollback(); err != nil { // one writer at a time
			t.Fatal(err)
		}
	}
	if _, err := box.Process(t.Context(), nil, "c", inbox.Message{ID: "1"}, nil); !errors.Is(err, inbox.ErrNoTransaction) {
		t.Errorf("got %v", err)
	}
}

// Two deliveries at once: the second waits for the first one's end.
func TestInbox_ConcurrentDeliveriesTakeTurns(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	box := newInbox(t, db)
	for _, commits := range []bool{true, false} {
		t.Run(fmt.Sprintf("first commits %t", commits), func(t *testing.T) {
			message := inbox.Message{ID: fmt.Sprint(commits)}
			nothing := func(context.Context) error { return nil }
			first, second := db.begin(t), beginPgx(t, connect(t, db.url, pgx.QueryExecModeExec))
			if applied, err := box.Process(t.Context(), first, "c", message, nothing); !applied || err != nil {
				t.Fatal(applied, err)
			}
			type outcome struct {
				applied bool
				err     error
			}
			done := make(chan outcome, 1)
			go func() {
				applied, err := box.Process(t.Context(), second, "c", message, nothing)
				done <- outcome{applied, err}
			}()
			waitForLock(t, db)
			end := first.rollback
			if commits {
				end = first.commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if got := <-done; got.err != nil || got.applied == commits {
				t.Fatalf("second delivery: applied %t, %v", got.applied, got.err)
			}
			if err := second.commit(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// waitForLock returns when some session of the database waits for a lock.
func waitForLock(t *testing.T, db *database) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for db.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("no session waits for a lock")
		}
	}
}

// S29: repeats and lookups draw nothing from any sequence.
func TestS29_OnlyTheOutboxIDDrawsFromASequence(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	const events = 10_000
	db.write(t, outbox.Config{}, make10k()...)
	box := newInbox(t, db)
	for range 3 {
		tx := beginPgx(t, connect(t, db.url, pgx.QueryExecModeCacheStatement))
		for i := range events {
			if _, err := box.Process(t.Context(), tx, "c", inbox.Message{ID: fmt.Sprint(i)}, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	}
	if n := db.count(t, `SELECT count(*) FROM {{inbox}}`); n != events {
		t.Errorf("%d inbox rows, want %d", n, events)
	}
	if n := db.count(t, `SELECT count(*) FROM pg_sequences WHERE last_value > 0 AND sequencename <> 'outbox_id_seq'`); n != 0 {
		t.Errorf("%d sequences besides the outbox's id were drawn from", n)
	}
	if n := db.count(t, `SELECT last_value FROM outbox_id_seq`); n != events {
		t.Errorf("the outbox's sequence is at %d, want %d", n, events)
	}
}
