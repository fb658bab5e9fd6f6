package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

// sqlTx records the statements that a real transaction would run, and claims to
// have inserted as many rows as were asked for.
type sqlTx struct {
	calls []call
	rows  func(call) int64
	err   error
}

type call struct {
	query string
	args  []any
}

func (tx *sqlTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	c := call{query, args}
	tx.calls = append(tx.calls, c)
	if tx.err != nil {
		return nil, tx.err
	}
	if tx.rows != nil {
		return driver.RowsAffected(tx.rows(c)), nil
	}
	return driver.RowsAffected(-1), nil
}

func (tx *sqlTx) Commit() error   { return nil }
func (tx *sqlTx) Rollback() error { return nil }

// recording keeps the events themselves.
type recording struct {
	sqlTx
	events []Event
}

func (r *recording) RecordEvents(_ context.Context, events []Event) error {
	r.events = append(r.events, events...)
	return nil
}

func writer(t *testing.T, d Dialect, c Config) *Writer {
	t.Helper()
	w, err := NewWriter(d, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestNewWriter_RefusesBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		d Dialect
		c Config
	}{
		"unknown dialect":  {"oracle", Config{}},
		"no dialect":       {"", Config{}},
		"negative payload": {Postgres, Config{MaxPayload: -1}},
		"negative headers": {Postgres, Config{MaxHeaders: -1}},
		"bad name":         {Postgres, Config{Names: Names{Schema: "a;b"}}},
	} {
		if _, err := NewWriter(c.d, c.c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWrite_NeedsATransaction(t *testing.T) {
	w := writer(t, Postgres, Config{})
	if err := w.Write(t.Context(), nil, Event{Topic: "t"}); !errors.Is(err, ErrNoTransaction) {
		t.Fatalf("got %v", err)
	}
}

func TestWrite_NothingRunsNothing(t *testing.T) {
	tx := &sqlTx{}
	if err := writer(t, Postgres, Config{}).Write(t.Context(), tx); err != nil || len(tx.calls) != 0 {
		t.Fatalf("%v, %d statements", err, len(tx.calls))
	}
}

func TestWrite_OneStatementPer5000Events(t *testing.T) {
	for _, d := range []Dialect{Postgres, SQLite} {
		w := writer(t, d, Config{})
		for events, want := range map[int]int{1: 1, 2: 1, 5_000: 1, 5_001: 2, 10_000: 2, 12_345: 3} {
			tx := &sqlTx{}
			batch := make([]Event, events)
			for i := range batch {
				batch[i] = Event{Topic: "t", Payload: []byte("x")}
			}
			if err := w.Write(t.Context(), tx, batch...); err != nil || len(tx.calls) != want {
				t.Errorf("%s: %d events: %v, %d statements, want %d", d, events, err, len(tx.calls), want)
			}
		}
	}
}

func TestWrite_BoundsAStatementsBytes(t *testing.T) {
	w := writer(t, Postgres, Config{MaxPayload: 64 << 20})
	large, small := make([]byte, 6<<20), make([]byte, 1)
	tx := &sqlTx{}
	err := w.Write(t.Context(), tx,
		Event{Topic: "t", Payload: make([]byte, 20<<20)}, // larger than a statement, alone
		Event{Topic: "t", Payload: large}, Event{Topic: "t", Payload: large},
		Event{Topic: "t", Payload: large}, Event{Topic: "t", Payload: small})
	if err != nil || len(tx.calls) != 3 {
		t.Fatalf("%v, %d statements", err, len(tx.calls))
	}
}

func TestWrite_InsertsAndDoesNothingElse(t *testing.T) {
	for _, d := range []Dialect{Postgres, SQLite} {
		tx := &sqlTx{}
		w := writer(t, d, Config{Names: Names{Schema: "My Tenant", Prefix: `out"box`}})
		if err := w.Write(t.Context(), tx, Event{Topic: "t"}); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), tx, Event{Topic: "t"}, Event{Topic: "u"}); err != nil {
			t.Fatal(err)
		}
		for _, c := range tx.calls {
			if !strings.HasPrefix(c.query, `INSERT INTO "My Tenant"."out""box"`) {
				t.Errorf("%s: %s", d, c.query)
			}
			for _, word := range []string{"RETURNING", "ON CONFLICT", "{{", "CREATE", "FROM \"My"} {
				if strings.Contains(c.query, word) {
					t.Errorf("%s: %s in %s", d, word, c.query)
				}
			}
			for i, a := range c.args {
				switch a.(type) {
				case nil, string, []byte, int64:
				default:
					t.Errorf("%s: argument %d is a %T, which drivers treat differently", d, i, a)
				}
			}
		}
	}
}

func TestWrite_FillsIDAndContentTypeAndLeavesTheCallersEventAlone(t *testing.T) {
	given := NewID()
	events := []Event{{Topic: "t"}, {Topic: "t", ID: given, ContentType: "text/plain"}}
	r := &recording{}
	if err := writer(t, Postgres, Config{}).Write(t.Context(), r, events...); err != nil {
		t.Fatal(err)
	}
	if r.events[0].ID.IsZero() || r.events[0].ContentType != ContentTypeJSON {
		t.Errorf("first event %+v", r.events[0])
	}
	if r.events[1].ID != given || r.events[1].ContentType != "text/plain" {
		t.Errorf("second event %+v", r.events[1])
	}
	if !events[0].ID.IsZero() || events[0].ContentType != "" {
		t.Errorf("the caller's event was changed: %+v", events[0])
	}
}

func TestWrite_AddsTheTraceContext(t *testing.T) {
	type key struct{}
	w := writer(t, Postgres, Config{Trace: func(ctx context.Context, h map[string]string) {
		h["traceparent"], _ = ctx.Value(key{}).(string)
		h["tracestate"] = "a=b"
		h["Nats-Msg-Id"] = "reserved"
		h["broken"] = "line\nbreak"
	}})
	own := map[string]string{"Traceparent": "own", "x": "y"}
	r := &recording{}
	ctx := context.WithValue(t.Context(), key{}, "00-ab-cd-01")
	err := w.Write(ctx, r, Event{Topic: "t"}, Event{Topic: "t", Headers: own},
		Event{Topic: "t", Headers: map[string]string{"Tracestate": "c=d", "x": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"traceparent": "00-ab-cd-01", "tracestate": "a=b"}; !maps.Equal(r.events[0].Headers, want) {
		t.Errorf("got %v, want %v", r.events[0].Headers, want)
	}
	if want := map[string]string{"Traceparent": "own", "x": "y"}; !maps.Equal(r.events[1].Headers, want) {
		t.Errorf("got %v, want %v", r.events[1].Headers, want)
	}
	if want := map[string]string{"traceparent": "00-ab-cd-01", "Tracestate": "c=d", "x": "y"}; !maps.Equal(r.events[2].Headers, want) {
		t.Errorf("got %v, want %v", r.events[2].Headers, want)
	}
	if len(own) != 2 {
		t.Errorf("the caller's headers were changed: %v", own)
	}
}

func TestWrite_ATraceThatDoesNotFitIsLeftOut(t *testing.T) {
	w := writer(t, Postgres, Config{MaxHeaders: 10, Trace: func(_ context.Context, h map[string]string) { h["traceparent"] = "long" }})
	r := &recording{}
	if err := w.Write(t.Context(), r, Event{Topic: "t", Headers: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if len(r.events[0].Headers) != 1 {
		t.Fatalf("got %v", r.events[0].Headers)
	}
}

func TestWrite_SwallowedRowsAreAnError(t *testing.T) {
	tx := &sqlTx{rows: func(call) int64 { return 1 }}
	err := writer(t, Postgres, Config{}).Write(t.Context(), tx, Event{Topic: "t"}, Event{Topic: "t"})
	var missing *RowsError
	if !errors.As(err, &missing) || missing.Events != 2 || missing.Rows != 1 {
		t.Fatalf("got %v", err)
	}
}

func TestWrite_WrapsTheDatabasesError(t *testing.T) {
	broken := errors.New("broken")
	err := writer(t, SQLite, Config{}).Write(t.Context(), &sqlTx{err: broken}, Event{Topic: "t"})
	if !errors.Is(err, broken) || err.Error() != "insert 1 events into main.outbox: broken" {
		t.Fatalf("got %v", err)
	}
}

func TestTxFunc_IsATxThatCannotBeEnded(t *testing.T) {
	var tx Tx = TxFunc(func(context.Context, string, ...any) (int64, error) { return -1, nil })
	if err := writer(t, Postgres, Config{}).Write(t.Context(), tx, Event{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	if tx.Commit() == nil || tx.Rollback() == nil {
		t.Fatal("ended")
	}
}

func TestJSON_KeepsHTMLAndEndsWithoutALineBreak(t *testing.T) {
	e, err := JSON("orders", "42", "order.placed", map[string]string{"a": "<b>&"})
	if err != nil || string(e.Payload) != `{"a":"<b>&"}` || e.ContentType != ContentTypeJSON {
		t.Fatalf("%s, %v", e.Payload, err)
	}
	if e.Topic != "orders" || e.Key != "42" || e.Type != "order.placed" {
		t.Fatalf("%+v", e)
	}
	if _, err := JSON("orders", "", "", func() {}); err == nil {
		t.Fatal("a func was encoded")
	}
}

func TestArray_QuotesWhatIsSyntax(t *testing.T) {
	var a array
	a.text(`a"b\c{},NULL`)
	a.null()
	a.textOrNull("")
	a.text("")
	a.text("NULL")
	a.number(-5)
	a.numberOrNull(0)
	if got, want := a.literal(), `{"a\"b\\c{},NULL",NULL,NULL,"","NULL",-5,NULL}`; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	if got := new(array).literal(); got != "{}" {
		t.Fatalf("got %s", got)
	}
}

func TestTime_IsUTCInEveryZone(t *testing.T) {
	at := time.Date(2026, 3, 29, 2, 30, 0, 123_456_789, time.FixedZone("IST", 19_800))
	e := &Event{AvailableAt: at}
	if got, want := postgresTime(e), "2026-03-28T21:00:00.123456Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := sqliteTime(e), at.UnixMilli(); got != want {
		t.Errorf("got %v, want %d", got, want)
	}
}
