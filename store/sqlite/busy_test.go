package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// The test binary is also the producer of TestS60: a process of its own.
const producerFile, producerEvents, producerName = "POSTRIDER_PRODUCER_FILE", "POSTRIDER_PRODUCER_EVENTS", "POSTRIDER_PRODUCER_NAME"

func producing() bool { return os.Getenv(producerFile) != "" }

// produce writes events, each in a transaction that changes business data too.
// Every tenth is rolled back. It prints the number of commits.
func produce() {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	db, err := sql.Open("sqlite", dataSource(os.Getenv(producerFile), 30*time.Second, false))
	fail(err)
	w, err := outbox.NewWriter(outbox.SQLite, outbox.Config{})
	fail(err)
	events, err := strconv.Atoi(os.Getenv(producerEvents))
	fail(err)
	name := os.Getenv(producerName)
	committed := 0
	for i := range events {
		tx, err := db.BeginTx(ctx, nil)
		fail(err)
		_, err = tx.ExecContext(ctx, `INSERT INTO business (note) VALUES (?)`, name)
		fail(err)
		fail(w.Write(ctx, tx, outbox.Event{
			Topic: "orders", Key: name + strconv.Itoa(i%7), Payload: []byte(name + "/" + strconv.Itoa(committed)),
		}))
		if i%10 == 9 {
			fail(tx.Rollback())
			continue
		}
		fail(tx.Commit())
		committed++
	}
	fail(db.Close())
	fmt.Println(committed)
}

func TestS60_ManyProcessesWriteOneFile(t *testing.T) {
	t.Parallel()
	const producers = 8
	events := 150
	if n, err := strconv.Atoi(os.Getenv("POSTRIDER_SOAK_EVENTS")); err == nil {
		events = n
	}
	name, db := newFile(t)
	mustExec(t, db, `CREATE TABLE business (id INTEGER PRIMARY KEY, note TEXT)`)
	s := openStore(t, name)

	var wg sync.WaitGroup
	committed := make([]int, producers)
	for i := range producers {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
			cmd.Env = append(os.Environ(), producerFile+"="+name, producerEvents+"="+strconv.Itoa(events), fmt.Sprintf("%s=p%d-", producerName, i))
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("producer %d: %v: %s", i, err, out)
				return
			}
			if _, err := fmt.Sscan(string(out), &committed[i]); err != nil {
				t.Errorf("producer %d: %q: %v", i, out, err)
			}
		})
	}
	finished := make(chan struct{})
	go func() { wg.Wait(); close(finished) }()

	// The relay's part: fetch and settle as fast as it can, no error allowed.
	received := map[string]int{}
	for done := false; ; {
		select {
		case <-finished:
			done = true
		default:
		}
		f := fetch(t, s, relay.FetchQuery{Rows: 200})
		for _, r := range f.Rows {
			received[string(r.Payload)]++
		}
		if out := settle(t, s, relay.Settlement{Delivered: refs(f.Rows)}); out.Missed > 0 || out.History != nil {
			t.Fatalf("settled: %+v", out)
		}
		if len(f.Rows) == 0 {
			if done {
				break
			}
			time.Sleep(time.Millisecond) // a relay would wait for its bell
		}
	}
	want := 0
	for i, n := range committed {
		want += n
		for e := range n {
			if got := received[fmt.Sprintf("p%d-/%d", i, e)]; got != 1 {
				t.Errorf("producer %d, event %d: received %d times", i, e, got)
			}
		}
	}
	if len(received) != want || count(t, db, `SELECT count(*) FROM business`) != want {
		t.Errorf("received %d of %d", len(received), want)
	}
	if n := count(t, db, `SELECT count(*) FROM outbox_delivered`); n != want {
		t.Errorf("history holds %d of %d", n, want)
	}
	t.Logf("%d committed by %d processes, %d transactions begun anew", want, producers, s.Retries())
}

func TestS60_PragmasAreSetOnEveryConnection(t *testing.T) {
	t.Parallel()
	name, _ := newFile(t)
	want := map[string]string{
		"journal_mode": "wal", "busy_timeout": "5000", "synchronous": "1", "temp_store": "2",
		"trusted_schema": "0", "journal_size_limit": "67108864",
	}
	for _, readOnly := range []bool{false, true} {
		db, err := connect(name, 5*time.Second, readOnly)
		if err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(10)
		var held []*sql.Conn
		for range 10 { // all held at once, so each is a fresh one
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, conn)
			for pragma, value := range want {
				var got string
				if err := conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != value {
					t.Errorf("%s = %q, %v; want %q", pragma, got, err, value)
				}
			}
			if _, err := conn.ExecContext(t.Context(), `DELETE FROM outbox`); (err != nil) != readOnly {
				t.Errorf("read-only %v: delete: %v", readOnly, err)
			}
		}
		for _, conn := range held {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestS60_AReaderThatBecomesAWriterIsNeverUsed(t *testing.T) {
	t.Parallel()
	s, db := newStore(t)
	insert(t, db, "orders", "k", "1")
	// Each write holds the lock from its first statement on: another writer
	// cannot commit between its read and its write.
	err := s.write(t.Context(), false, func(tx *sql.Tx) error {
		short, err := sql.Open("sqlite", dataSource(s.cfg.file(), time.Millisecond, false))
		if err != nil {
			return err
		}
		defer short.Close()
		if _, err := short.ExecContext(t.Context(), `DELETE FROM outbox`); !isBusy(err) {
			t.Errorf("another writer: %v, want busy", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWrite_WaitsForALockThatOutlastsItsTimeout(t *testing.T) {
	t.Parallel()
	name, db := newFile(t)
	insert(t, db, "orders", "k", "1")
	s := openStore(t, name, func(c *Config) { c.BusyTimeout = 20 * time.Millisecond })
	f := fetch(t, s, relay.FetchQuery{})
	tx, err := db.BeginTx(t.Context(), nil) // IMMEDIATE
	if err != nil {
		t.Fatal(err)
	}
	settled := make(chan error, 1)
	go func() {
		_, err := s.Settle(t.Context(), relay.Settlement{Delivered: refs(f.Rows)})
		settled <- err
	}()
	deadline := time.Now().Add(10 * time.Second)
	for s.Retries() == 0 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond) // until the first try has run out
	}
	if got := fetch(t, s, relay.FetchQuery{}); len(got.Rows) != 1 {
		t.Errorf("a reader saw %d rows beside the writer", len(got.Rows))
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-settled; err != nil {
		t.Fatal(err)
	}
}
