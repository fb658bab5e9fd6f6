// Package demo plays the whole story of an outbox on one machine without any
// server: writers that commit and roll back, two relay processes of which one is
// killed between publish and settle, a stream, a consumer with an inbox, and at
// the end an account of every event.
//
// The database is a SQLite file, the stream an embedded JetStream. Its duplicate
// window is short on purpose: what the killed relay had published is published
// again and reaches the consumer, and the inbox absorbs it, not the broker.
package demo

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Config says how the demo runs.
type Config struct {
	// Events is how many events are written, those rolled back included.
	Events int
	// Out is told the story, a line at a time.
	Out io.Writer
	// Relay makes the command of a relay process; Serve is what it runs.
	Relay func(ctx context.Context, file, url string, stall int) *exec.Cmd
	// Migrate makes the tables in a SQLite file.
	Migrate func(ctx context.Context, file string) error
}

// Account is what became of every event.
type Account struct {
	Committed, RolledBack, Delivered, Duplicates, Applied int
	Lost, Invented, OutOfOrder                            int
}

// Fine reports whether nothing was lost, invented or out of order.
func (a Account) Fine() bool { return a.Lost == 0 && a.Invented == 0 && a.OutOfOrder == 0 }

func (a Account) String() string {
	return fmt.Sprintf("committed=%d rolled_back=%d delivered=%d duplicates=%d applied=%d lost=%d invented=%d out_of_order=%d",
		a.Committed, a.RolledBack, a.Delivered, a.Duplicates, a.Applied, a.Lost, a.Invented, a.OutOfOrder)
}

const (
	topic   = "accounts"
	subject = "accounts"
	stream  = "DEMO"
	// lease is short, so that nobody has to wait for the takeover.
	lease          = 2 * time.Second
	publishTimeout = time.Second
	// patience bounds the wait for the last events.
	patience = 45 * time.Second
)

// Run plays the demo and returns the account.
func Run(ctx context.Context, c Config) (Account, error) {
	dir, err := os.MkdirTemp("", "postrider-demo-")
	if err != nil {
		return Account{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	say := func(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }

	say("starting an embedded JetStream and a SQLite database")
	server, err := startStream(ctx, filepath.Join(dir, "stream"))
	if err != nil {
		return Account{}, err
	}
	defer server.stop()
	file := filepath.Join(dir, "app.db")
	if err := c.Migrate(ctx, file); err != nil {
		return Account{}, err
	}
	db, err := openDatabase(ctx, file)
	if err != nil {
		return Account{}, err
	}
	defer db.Close() //nolint:errcheck // read to the end by then

	consumer, err := startConsumer(ctx, server, filepath.Join(dir, "consumer.db"), c.Migrate)
	if err != nil {
		return Account{}, err
	}
	defer consumer.stop()

	say("starting two relay processes: one serves, the other stands by")
	relays := &relays{cfg: c, file: file, url: server.url, say: say}
	defer relays.stop()
	if err := relays.start(ctx, c.Events/3); err != nil {
		return Account{}, err
	}

	say("writing %d events in transactions, every tenth is rolled back", c.Events)
	written := make(chan error, 1)
	var log writeLog
	go func() { written <- writeEvents(ctx, db, c.Events, &log) }()

	if err := relays.killBetween(ctx); err != nil {
		return Account{}, err
	}
	if err := <-written; err != nil {
		return Account{}, fmt.Errorf("write events: %w", err)
	}
	say("writers are done: %d committed, %d rolled back", len(log.committed), log.rolledBack)

	if err := drained(ctx, db, consumer, len(log.committed)); err != nil {
		return Account{}, err
	}
	relays.stop()
	consumer.stop()
	return account(ctx, server, consumer, &log)
}

// drained waits until the outbox is empty and the consumer has seen everything
// that is in the stream.
func drained(ctx context.Context, db *database, c *consumer, committed int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		pending, err := db.pending(ctx)
		if err == nil && pending == 0 && c.applied() >= committed && c.caughtUp(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			// The account tells what is missing.
			return context.Cause(context.WithoutCancel(ctx))
		}
	}
}
