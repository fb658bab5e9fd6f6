package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox"
)

// fatal catches what a failing test would print.
type fatal struct {
	testing.TB
	message string
}

func (f *fatal) Helper() {}
func (f *fatal) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func failure(run func(t testing.TB)) string {
	f := &fatal{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(f)
	}()
	<-done
	return f.message
}

func written(t *testing.T) *Recorder {
	t.Helper()
	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rec := &Recorder{}
	err = w.Write(t.Context(), rec,
		outbox.Event{Topic: "orders", Key: "42", Type: "order.placed", Payload: []byte(`{"id": 42, "n": 1.0}`), Headers: map[string]string{"x": "y"}},
		outbox.Event{Topic: "gone", Key: "42"}, outbox.Event{Topic: "empty", Payload: []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRecorder_RequireWritten(t *testing.T) {
	rec := written(t)
	e := rec.RequireWritten(t, Topic("orders"), Key("42"), Type("order.placed"), JSON(`{"n":1.0,"id":42}`), Header("x", "y"),
		Func("an id", func(e outbox.Event) bool { return !e.ID.IsZero() }))
	rec.RequireWritten(t, ID(e.ID), Bytes([]byte(`{"id": 42, "n": 1.0}`)))
	rec.RequireWritten(t, Topic("gone"), Tombstone())
	rec.RequireWritten(t, Topic("empty"), Bytes(nil))
	for name, matches := range map[string][]Match{
		"other key": {Topic("orders"), Key("43")}, "matches of two events": {Topic("gone"), Type("order.placed")},
		"another JSON": {JSON(`{"id":42}`)}, "no JSON": {JSON(`{`)}, "another number": {JSON(`{"id":42,"n":1}`)},
		"header value": {Header("x", "z")}, "missing header": {Header("z", "")},
		"empty is no tombstone": {Topic("empty"), Tombstone()}, "a tombstone is not empty": {Topic("gone"), Bytes(nil)},
	} {
		rec.RequireNotWritten(t, matches...)
		message := failure(func(t testing.TB) { rec.RequireWritten(t, matches...) })
		if !strings.Contains(message, "the outbox holds 3 events") || !strings.Contains(message, `topic "gone"`) {
			t.Errorf("%s: the test ended with %q", name, message)
		}
	}
	if message := failure(func(t testing.TB) { rec.RequireNotWritten(t, Topic("gone")) }); !strings.Contains(message, "was written") {
		t.Errorf("the test ended with %q", message)
	}
}

func TestRecorder_IsATransaction(t *testing.T) {
	rec := written(t)
	if err := rec.Commit(); err != nil || len(rec.Events()) != 3 {
		t.Errorf("%v, %d events", err, len(rec.Events()))
	}
	if err := rec.Rollback(); !errors.Is(err, ErrEnded) || len(rec.Events()) != 3 {
		t.Errorf("a rollback after the commit: %v, %d events", err, len(rec.Events()))
	}
	if err := rec.RecordEvents(t.Context(), nil); !errors.Is(err, ErrEnded) {
		t.Errorf("a write after the commit: %v", err)
	}
	rec = written(t)
	if err := rec.Rollback(); err != nil || len(rec.Events()) != 0 {
		t.Errorf("%v, %d events", err, len(rec.Events()))
	}
	if _, err := rec.ExecContext(t.Context(), "SELECT 1"); err == nil {
		t.Error("a statement was run")
	}
}

func TestRecorder_Fails(t *testing.T) {
	w, err := outbox.NewWriter(outbox.SQLite, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	rec := &Recorder{Err: broken}
	if err := w.Write(t.Context(), rec, outbox.Event{Topic: "t"}); !errors.Is(err, broken) || len(rec.Events()) != 0 {
		t.Errorf("%v, %d events", err, len(rec.Events()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Write(ctx, &Recorder{}, outbox.Event{Topic: "t"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// The same checks as with a database.
	if err := w.Write(t.Context(), &Recorder{}, outbox.Event{}); err == nil {
		t.Error("an event without a topic was recorded")
	}
}

func TestRecorder_KeepsItsOwnCopy(t *testing.T) {
	w, err := outbox.NewWriter(outbox.SQLite, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	e := outbox.Event{Topic: "t", Payload: []byte("a"), Headers: map[string]string{"x": "a"}}
	rec := &Recorder{}
	if err := w.Write(t.Context(), rec, e); err != nil {
		t.Fatal(err)
	}
	e.Payload[0], e.Headers["x"] = 'b', "b"
	rec.RequireWritten(t, Bytes([]byte("a")), Header("x", "a"))
}
