package main

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestMigrate_TwiceAtOnceRunsOnce(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		var wg sync.WaitGroup
		results := make([]result, 6)
		for i := range results {
			wg.Go(func() { results[i] = program(t, d.env(), "migrate", "up") })
		}
		wg.Wait()
		all := ""
		for _, r := range results {
			if r.code != exitFine {
				t.Errorf("exit %d\n%s", r.code, r.shown())
			}
			all += r.out
		}
		for _, name := range []string{"ran 00001_outbox.sql", "ran 00002_inbox.sql"} {
			if n := strings.Count(all, name); n > 1 || n == 0 && d.pg != nil {
				t.Errorf("%s happened %d times:\n%s", name, n, all)
			}
		}
		must(t, d.env(), "migrate", "status")
	})
}

func TestMigrate_SeveralOutboxesInOneDatabase(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), "migrate", "up", "--prefix", "other")
		must(t, d.env(), "migrate", "status", "--prefix", "other")
		must(t, d.env(), "write", "--topic", "t", "--payload", "x", "--prefix", "other")
		contains(t, must(t, d.env(), "status"), "pending 0")
		contains(t, must(t, d.env(), "status", "--prefix", "other"), "pending 1")
		must(t, d.env(), "migrate", "down")
		contains(t, must(t, d.env(), "status", "--prefix", "other"), "pending 1")
	})
}

func TestMigrate_NamesThatNeedQuotes(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	d.exec(t, `CREATE SCHEMA "My Tenant"`)
	names := []string{"--schema", "My Tenant", "--prefix", `Out"box`}
	with := func(args ...string) []string { return append(args, names...) }
	must(t, d.env(), with("migrate", "up")...)
	must(t, d.env(), with("write", "--topic", "t", "--payload", "x")...)
	must(t, append(d.env(), "POSTRIDER_BROKER=stdout:"), with("relay", "--once")...)
	must(t, d.env(), with("migrate", "down")...)
}

func TestMigrate_TablesOfAnotherTool(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		if d.pg == nil {
			d.createFile(t)
		}
		d.exec(t, must(t, d.env(), "migrate", "print", "--format", "sql"))
		must(t, append(d.env(), "POSTRIDER_BROKER=stdout:"), "relay", "--once")
		complains(t, d.env(), exitFailed, []string{"made by another tool", "hint: go on with that tool"}, "migrate", "up")
	})
}

func TestMigrate_DownRefusesToLoseEvents(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), "write", "--topic", "t", "--payload", "x")
		complains(t, d.env(), exitFailed, []string{"1 undelivered and 0 dead events would be lost", "hint: "}, "migrate", "down")
		contains(t, must(t, d.env(), "status"), "pending 1")
		d.exec(t, `INSERT INTO outbox_dead (id, event_id, generation, topic, key, content_type, created_at, queued_at, attempts, cause_class, cause)
			SELECT id, event_id, generation, topic, key, content_type, created_at, queued_at, 1, 'permanent', 'x' FROM outbox`)
		d.exec(t, "DELETE FROM outbox")
		complains(t, d.env(), exitFailed, []string{"0 undelivered and 1 dead events"}, "migrate", "down")
	})
}

// TestMigrate_DownSeesWhatCommitsMeanwhile: the first look finds nothing, then a
// writer that had begun commits.
func TestMigrate_DownSeesWhatCommitsMeanwhile(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	must(t, d.env(), "migrate", "up")
	db, err := openPostgres(d.url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "INSERT INTO outbox (topic) VALUES ('t')"); err != nil {
		t.Fatal(err)
	}
	done := make(chan result, 1)
	go func() { done <- program(t, d.env(), "migrate", "down") }()
	waitForLockWaiter(t, d)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r := <-done
	if r.code != exitFailed {
		t.Errorf("exit %d\n%s", r.code, r.shown())
	}
	contains(t, r.errors, "would be lost with the tables; nothing was changed")
	contains(t, must(t, d.env(), "status"), "pending 1")
}

// TestS50_AMigrationGivesUpWaitingForALock: writers behind it would all stand
// still for as long as it waited.
func TestS50_AMigrationGivesUpWaitingForALock(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	must(t, d.env(), "migrate", "up")
	db, err := openPostgres(d.url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(t.Context(), "SELECT count(*) FROM outbox"); err != nil {
		t.Fatal(err)
	}
	complains(t, d.env(), exitFailed, []string{"locked by other sessions: gave up after 3s", "hint: run it again, or end first what holds the tables: pid "}, "migrate", "down")
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	must(t, d.env(), "write", "--topic", "t", "--payload", "x")
}

// waitForLockWaiter returns once some session of the database waits for a lock.
func waitForLockWaiter(t *testing.T, d database) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		waiting := d.pg.Query(t, d.url, "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'relation' AND a.datname = current_database()")
		if waiting[0] != "0" {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("nobody waits for a lock")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestMigrateDown_KeepsAnInboxThatRemembersSomething(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), "migrate", "up", "--prefix", "other")
		d.exec(t, "INSERT INTO inbox (consumer, identity) VALUES ('billing', '1')")
		must(t, d.env(), "migrate", "down") // it made the inbox, and the other's consumer uses it
		d.exec(t, "UPDATE inbox SET identity = '2'")
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), "migrate", "status")
		d.exec(t, "DELETE FROM inbox")
		must(t, d.env(), "migrate", "down")
	})
}
