package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/postrider/postrider/outbox"
)

// ErrEnded is returned for a use of a Recorder after its Commit or Rollback, as
// database/sql returns sql.ErrTxDone.
var ErrEnded = errors.New("recorder: the transaction has ended")

// Recorder is an outbox.Tx without a database. Writer.Write gives it the events
// after the same checks as for a real one, with their ids and trace headers. The
// zero value is an open transaction; it is safe for concurrent use.
type Recorder struct {
	// Err is returned by the next writes instead of recording. Set it before
	// use, to see what the code does when the insert fails.
	Err error

	mu       sync.Mutex
	events   []outbox.Event
	ended    bool
	reverted bool
}

// RecordEvents is called by Writer.Write.
func (r *Recorder) RecordEvents(ctx context.Context, events []outbox.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrEnded
	}
	if r.Err != nil {
		return r.Err
	}
	for _, e := range events {
		// The writer only reads its caller's slices and maps; the caller may change them
		// after Write, as it may with a database.
		e.Payload = slices.Clone(e.Payload)
		e.Headers = maps.Clone(e.Headers)
		r.events = append(r.events, e)
	}
	return nil
}

// Events returns what was written, in order; nothing after a Rollback.
func (r *Recorder) Events() []outbox.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reverted {
		return nil
	}
	return slices.Clone(r.events)
}

// Commit ends the transaction.
func (r *Recorder) Commit() error { return r.end(false) }

// Rollback ends the transaction and forgets its events. After Commit it returns
// ErrEnded and changes nothing, so that it may be deferred.
func (r *Recorder) Rollback() error { return r.end(true) }

func (r *Recorder) end(back bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return ErrEnded
	}
	r.ended, r.reverted = true, back
	return nil
}

// ExecContext refuses every statement: a Recorder has no database. It is here
// because outbox.Tx needs it.
func (r *Recorder) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	return nil, errors.New("recorder: has no database to run statements in")
}

// RequireWritten stops the test unless an event satisfies every match. It
// returns the first such event.
func (r *Recorder) RequireWritten(t testing.TB, matches ...Match) outbox.Event {
	t.Helper()
	events := r.Events()
	found, ok := find(events, matches)
	if !ok {
		t.Fatalf("no event written with %s", describe(events, matches))
	}
	return found
}

// RequireNotWritten stops the test if an event satisfies every match.
func (r *Recorder) RequireNotWritten(t testing.TB, matches ...Match) {
	t.Helper()
	events := r.Events()
	if _, ok := find(events, matches); ok {
		t.Fatalf("an event was written with %s", describe(events, matches))
	}
}
