// Package inbox applies each event exactly once: the consumer's change and a
// row with the event's identity commit in one transaction, and a repeat finds
// the row.
//
// It does not talk to a broker and does not acknowledge anything: acknowledge
// after the commit, never before.
package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider/outbox"
)

// ErrNoTransaction is returned by Process for a nil transaction.
var ErrNoTransaction = outbox.ErrNoTransaction

// ErrRowsUnknown is returned by Process when the driver does not say how many
// rows a statement inserted, without which a repeat cannot be told from a first
// delivery. Nothing was applied.
var ErrRowsUnknown = errors.New("inbox: driver does not report affected rows")

// Config configures an Inbox. The zero value works.
type Config struct {
	// Names are those of the tables; Schema and Inbox are used. Default
	// "public"."inbox" in PostgreSQL and "main"."inbox" in SQLite.
	Names outbox.Names
}

// Message is what a consumer received.
type Message struct {
	// ID is the identity on the wire: the CloudEvents id. At most 1,024 bytes.
	ID string
	// Topic and Key are the event's; Process does not need them.
	Topic, Key string
	// SubjectVersion is the event's; Process does not need it.
	SubjectVersion int64
}

// Inbox remembers which events a consumer has applied. It holds no connection
// and no state, and is safe for concurrent use.
type Inbox struct {
	insert string
	table  string
}

// New returns an Inbox for tables of the dialect. It does not touch the
// network; an error is one of the configuration.
func New(d outbox.Dialect, c Config) (*Inbox, error) {
	if err := c.Names.Validate(d); err != nil {
		return nil, err
	}
	n := c.Names.WithDefaults(d)
	insert, err := insertStatement(d)
	if err != nil {
		return nil, err
	}
	return &Inbox{insert: n.Expand(d, insert), table: n.Schema + "." + n.Inbox}, nil
}

// Process applies m once for the consumer: it inserts the inbox row in tx, and
// calls fn if the row is new. It returns false without calling fn if the
// consumer has applied the event before.
//
// fn makes the consumer's changes in the same transaction. On any error roll
// the transaction back, and the event is as if never received; otherwise
// commit, then acknowledge. The error of fn is returned as it is.
//
// Two deliveries of one event at the same time take turns in the database: the
// second waits for the first one's commit and is then a repeat, or applies the
// event if the first was rolled back.
func (i *Inbox) Process(ctx context.Context, tx outbox.Tx, consumer string, m Message, fn func(context.Context) error) (applied bool, err error) {
	if tx == nil {
		return false, ErrNoTransaction
	}
	if err := check(consumer, m); err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, i.insert, consumer, m.ID)
	if err != nil {
		return false, fmt.Errorf("insert event %q of consumer %q into %s: %w", m.ID, consumer, i.table, err)
	}
	rows, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrRowsUnknown, err)
	}
	switch {
	case rows < 0:
		return false, ErrRowsUnknown
	case rows == 0:
		return false, nil
	}
	if err := fn(ctx); err != nil {
		return false, err
	}
	return true, nil
}
