package demo

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/inbox"
)

// consumer applies each event once, into a database of its own.
type consumer struct {
	db       *sql.DB
	inbox    *inbox.Inbox
	cons     jetstream.Consumer
	count    atomic.Int64
	cancel   context.CancelFunc
	done     chan struct{}
	stopping sync.Once
}

func startConsumer(ctx context.Context, s *streamServer, file string, migrate func(context.Context, string) error) (*consumer, error) {
	if err := migrate(ctx, file); err != nil {
		return nil, err
	}
	db, err := openFile(file)
	if err != nil {
		return nil, err
	}
	c := &consumer{db: db, done: make(chan struct{})}
	if _, err = db.ExecContext(ctx, `CREATE TABLE applied (id TEXT NOT NULL, account TEXT NOT NULL, body TEXT NOT NULL)`); err == nil {
		if c.inbox, err = inbox.New(outbox.SQLite, inbox.Config{}); err == nil {
			c.cons, err = s.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
				Durable: "demo", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 1000,
			})
		}
	}
	if err != nil {
		db.Close() //nolint:errcheck // the first error says more
		return nil, fmt.Errorf("consumer: %w", err)
	}
	ctx, c.cancel = context.WithCancel(ctx)
	go c.run(ctx)
	return c, nil
}

func (c *consumer) run(ctx context.Context) {
	defer close(c.done)
	for ctx.Err() == nil {
		batch, err := c.cons.Fetch(100, jetstream.FetchMaxWait(200*time.Millisecond))
		if err != nil {
			continue
		}
		for m := range batch.Messages() {
			if err := c.apply(ctx, m); err != nil {
				m.Nak() //nolint:errcheck // it comes again anyway
				continue
			}
			m.Ack() //nolint:errcheck // a lost ack is a repeat, which the inbox absorbs
		}
	}
}

// apply makes the change and the inbox row in one transaction. The message is
// acknowledged after the commit.
func (c *consumer) apply(ctx context.Context, m jetstream.Msg) error {
	tx, err := c.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	h := m.Headers()
	msg := inbox.Message{ID: h.Get("ce-id"), Topic: topic, Key: h.Get("ce-subject")}
	applied, err := c.inbox.Process(ctx, tx, "demo", msg, func(ctx context.Context) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO applied VALUES (?, ?, ?)`, msg.ID, msg.Key, string(m.Data()))
		return err
	})
	if err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if applied {
		c.count.Add(1)
	}
	return nil
}

func (c *consumer) applied() int { return int(c.count.Load()) }

// caughtUp reports whether every message of the stream was acknowledged.
func (c *consumer) caughtUp(ctx context.Context) bool {
	info, err := c.cons.Info(ctx)
	return err == nil && info.NumPending == 0 && info.NumAckPending == 0
}

func (c *consumer) stop() {
	c.stopping.Do(func() {
		c.cancel()
		<-c.done
	})
}
