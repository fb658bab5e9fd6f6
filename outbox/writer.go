package outbox

import (
	"context"
	"fmt"
	"maps"
)

// Write makes rows in four steps, of which only the last one talks to the
// database, so that an event which cannot be delivered is refused while the
// business transaction can still go on:
//
//  1. complete: missing ids and content types, trace headers
//  2. validate: every rule of the table and of the brokers (validate.go)
//  3. cut into statements of at most 5,000 events and 16 MiB of payload
//  4. insert, one statement and one round trip each, and compare the row count
//
// The statements are INSERT only, without RETURNING: reading back would need
// the right to SELECT, and a writer needs none but INSERT.

const (
	// maxEvents bounds a statement's rows.
	maxEvents = 5_000
	// maxStatementBytes bounds a statement's payloads, because drivers build
	// the whole message in memory; one event may be larger by itself.
	maxStatementBytes = 16 << 20

	defaultMaxPayload = 1 << 20
	defaultMaxHeaders = 32 << 10
)

// Config configures a Writer. The zero value works.
type Config struct {
	// Names are those of the tables. Default "public"."outbox" in PostgreSQL
	// and "main"."outbox" in SQLite.
	Names Names
	// MaxPayload is the largest payload in bytes. Raise it only if every broker
	// behind the outbox takes messages of that size. Default 1 MiB.
	MaxPayload int
	// MaxHeaders is the largest sum of the bytes of an event's header names and
	// values. Brokers put headers into one frame. Default 32 KiB.
	MaxHeaders int
	// Trace adds the trace context of ctx to headers, as traceparent and
	// tracestate; an OpenTelemetry propagator does it in one line (see
	// docs/writing-events.md). It is called once per Write. An event that has a
	// traceparent keeps its own and gets nothing of this one; any other header
	// of the event wins; and what breaks a header rule is left out: a trace never
	// fails a business transaction. Default none.
	Trace func(ctx context.Context, headers map[string]string)
}

func (c Config) withDefaults(d Dialect) Config {
	c.Names = c.Names.WithDefaults(d)
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.MaxHeaders == 0 {
		c.MaxHeaders = defaultMaxHeaders
	}
	return c
}

func (c Config) validate(d Dialect) error {
	if c.MaxPayload < 0 {
		return fmt.Errorf("max payload %d: negative", c.MaxPayload)
	}
	if c.MaxHeaders < 0 {
		return fmt.Errorf("max headers %d: negative", c.MaxHeaders)
	}
	return c.Names.Validate(d)
}

// Writer inserts events into an outbox. It holds no connection and no state,
// and is safe for concurrent use.
type Writer struct {
	config Config
	insert inserts
}

// NewWriter returns a Writer for an outbox of the dialect. It does not touch
// the network; an error is one of the configuration.
func NewWriter(d Dialect, c Config) (*Writer, error) {
	insert, err := d.inserts()
	if err != nil {
		return nil, err
	}
	c = c.withDefaults(d)
	if err := c.validate(d); err != nil {
		return nil, err
	}
	insert.one = c.Names.Expand(d, insert.one)
	insert.many = c.Names.Expand(d, insert.many)
	return &Writer{config: c, insert: insert}, nil
}

// Write inserts events, in their order, in the transaction tx. They exist if
// and only if tx commits. It takes one statement, and one round trip, per 5,000
// events or 16 MiB of payload.
//
// A [*ValidationError] is returned before any SQL is run, for the first event
// that breaks a rule; any other error is the database's and leaves tx as a
// failed statement leaves it. The events and their maps and slices are only
// read.
//
// For the order of a key: change the aggregate first, write the event last. A
// row lock of the change then makes concurrent writers of one key take turns.
func (w *Writer) Write(ctx context.Context, tx Tx, events ...Event) error {
	if tx == nil {
		return ErrNoTransaction
	}
	if len(events) == 0 {
		return nil
	}
	rows, err := w.complete(ctx, events)
	if err != nil {
		return err
	}
	if r, ok := tx.(recorder); ok {
		return r.RecordEvents(ctx, rows)
	}
	for len(rows) > 0 {
		n := cut(rows)
		if err := w.exec(ctx, tx, rows[:n]); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// recorder is implemented by outboxtest.Recorder, which stands in for a
// transaction in tests without a database.
type recorder interface {
	RecordEvents(ctx context.Context, events []Event) error
}

// complete returns copies of events as they will be stored.
func (w *Writer) complete(ctx context.Context, events []Event) ([]Event, error) {
	trace := w.trace(ctx)
	rows := make([]Event, len(events))
	for i, e := range events {
		if e.ID.IsZero() {
			e.ID = NewID()
		}
		if e.ContentType == "" {
			e.ContentType = ContentTypeJSON
		}
		if err := w.config.check(i, &e); err != nil {
			return nil, err
		}
		e.Headers = w.withTrace(e.Headers, trace)
		rows[i] = e
	}
	return rows, nil
}

// trace asks the hook for this call's headers and drops what cannot be a
// header.
func (w *Writer) trace(ctx context.Context) map[string]string {
	if w.config.Trace == nil {
		return nil
	}
	headers := make(map[string]string, 2)
	w.config.Trace(ctx, headers)
	maps.DeleteFunc(headers, func(name, value string) bool {
		return headerNameProblem(name) != "" || headerValueProblem(value) != ""
	})
	return headers
}

// withTrace returns headers with those of trace that they do not have, as far
// as the limit allows.
func (w *Writer) withTrace(headers, trace map[string]string) map[string]string {
	// The parts of two traces must not be mixed.
	if len(trace) == 0 || hasFold(headers, "traceparent") {
		return headers
	}
	merged := maps.Clone(trace)
	maps.DeleteFunc(merged, func(name, _ string) bool { return hasFold(headers, name) })
	maps.Copy(merged, headers)
	if headerBytes(merged) > w.config.MaxHeaders {
		return headers
	}
	return merged
}

// cut returns how many of rows fit into one statement: at least one.
func cut(rows []Event) int {
	bytes := 0
	for n, e := range rows {
		bytes += len(e.Payload)
		if n == maxEvents || n > 0 && bytes > maxStatementBytes {
			return n
		}
	}
	return len(rows)
}

func (w *Writer) exec(ctx context.Context, tx Tx, rows []Event) error {
	query, args := w.insert.one, []any(nil)
	if len(rows) == 1 {
		args = w.insert.oneArgs(&rows[0])
	} else {
		query, args = w.insert.many, w.insert.manyArgs(rows)
	}
	table := w.config.Names.Schema + "." + w.config.Names.Table
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("insert %d events into %s: %w", len(rows), table, err)
	}
	affected, err := result.RowsAffected()
	if err != nil || affected < 0 {
		return nil // the driver does not count; the statement itself succeeded
	}
	if affected != int64(len(rows)) {
		return &RowsError{Table: table, Events: int64(len(rows)), Rows: affected}
	}
	return nil
}
