package outboxsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/inbox"
)

// insertOnly returns a connection of a role that may INSERT into one table and
// nothing else, with an empty search_path.
func insertOnly(t *testing.T, db *database, table string) *pgx.Conn {
	t.Helper()
	role := testenv.Postgres(t).Role(t, "LOGIN")
	db.exec(t, fmt.Sprintf(`GRANT USAGE ON SCHEMA public TO %[1]s; GRANT INSERT ON %[2]s TO %[1]s`, role, table))
	conn := connect(t, testenv.As(t, db.url, role), pgx.QueryExecModeCacheStatement)
	if _, err := conn.Exec(t.Context(), `SET search_path = ''`); err != nil {
		t.Fatal(err)
	}
	return conn
}

// armBell makes the trigger ring, as if a relay slept.
func armBell(t *testing.T, db *database) {
	t.Helper()
	db.exec(t, db.names.Expand(db.dialect, `SELECT setval('{{bell}}', (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 1500)`))
}

// A writer needs INSERT on one table and nothing else.
func TestGuarantee9_WriteNeedsINSERTOnly(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	conn := insertOnly(t, db, "public.outbox")
	armBell(t, db)
	w := db.writer(t, outbox.Config{})
	tx := beginPgx(t, conn)
	if err := w.Write(t.Context(), tx, outbox.Event{Topic: "one", Payload: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(t.Context(), tx, awkward()...); err != nil {
		t.Fatal(err)
	}
	for _, call := range []string{
		`SELECT public.outbox_write('sql', 'k', 'type', '{"a":1}')`,
		`SELECT public.outbox_write('sql', NULL, NULL, '{"a": 1}'::jsonb, '{"x":"y"}')`,
		`SELECT public.outbox_write('sql', '', 'type', '\x0041'::bytea)`,
		`INSERT INTO public.outbox (topic, payload) VALUES ('sql', '{}')`,
	} {
		if err := tx.exec(call); err != nil {
			t.Fatalf("%s: %v", call, err)
		}
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if n := db.count(t, `SELECT count(*) FROM {{outbox}}`); n != int64(len(awkward())+5) {
		t.Fatalf("%d rows", n)
	}
	if _, err := conn.Exec(t.Context(), `SELECT FROM public.outbox`); codeOf(err) != "42501" {
		t.Fatalf("the role may do more than INSERT: %v", err)
	}
}

func TestOutboxWrite_KeepsTheBytesOfItsThreeTypes(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	db.exec(t, `SELECT outbox_write('t', 'k', 'y', '{"b":1,  "a":2}'),
		outbox_write('t', 'k', 'y', '\x00ff'::bytea, '{"h":"v"}'), outbox_write('t', 'k', NULL, '{"b":1,"a":2}'::jsonb)`)
	got := db.read(t)
	requireEqual(t, got[0], outbox.Event{Topic: "t", Key: "k", Type: "y", Payload: []byte(`{"b":1,  "a":2}`)})
	requireEqual(t, got[1], outbox.Event{
		Topic: "t", Key: "k", Type: "y", Payload: []byte("\x00\xff"),
		ContentType: "application/octet-stream", Headers: map[string]string{"h": "v"},
	})
	requireEqual(t, got[2], outbox.Event{Topic: "t", Key: "k", Payload: []byte(`{"a": 2, "b": 1}`)})
}

func TestInbox_NeedsINSERTOnly(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	conn := insertOnly(t, db, "public.inbox")
	box, err := inbox.New(db.dialect, inbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		tx := beginPgx(t, conn)
		applied, err := box.Process(t.Context(), tx, "c", inbox.Message{ID: "1"}, func(context.Context) error { return nil })
		if err != nil || applied != (i == 0) {
			t.Fatalf("delivery %d: %t, %v", i, applied, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestHealth_NeedsSELECTOnTheViewOnly(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	db.write(t, outbox.Config{}, outbox.Event{Topic: "a"}, outbox.Event{Topic: "a", AvailableAt: time.Now().Add(time.Hour)})
	role := testenv.Postgres(t).Role(t, "LOGIN")
	db.exec(t, fmt.Sprintf(`GRANT USAGE ON SCHEMA public TO %[1]s; GRANT SELECT ON outbox_health TO %[1]s`, role))
	conn := connect(t, testenv.As(t, db.url, role), pgx.QueryExecModeCacheStatement)
	var pending, scheduled int
	err := conn.QueryRow(t.Context(), `SELECT pending_events, scheduled_events FROM public.outbox_health`).Scan(&pending, &scheduled)
	if err != nil || pending != 1 || scheduled != 1 {
		t.Fatalf("%d, %d, %v", pending, scheduled, err)
	}
}

// A database that is not in UTF-8 keeps payload bytes, and takes what its
// encoding can hold in the text columns.
func TestWrite_LATIN1(t *testing.T) {
	t.Parallel()
	// pgx leaves client_encoding at the server's default, LATIN1 here, and would
	// send UTF-8 under that name; other drivers ask for UTF8 by themselves.
	url := testenv.Postgres(t).Database(t, testenv.Encoding("LATIN1"))
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	db := &database{dialect: outbox.Postgres, url: url + separator + "client_encoding=UTF8"}
	db.openSQL(t, "pgx", db.url)
	event := outbox.Event{Topic: "café", Key: "Zoë", Type: "é", Payload: []byte(`{"a":"🎉"}`), Headers: map[string]string{"x": "ü"}}
	db.write(t, outbox.Config{}, event)
	db.write(t, outbox.Config{}, event, outbox.Event{Topic: "bytes", Payload: allBytes()})
	got := db.read(t)
	requireEqual(t, got[0], event)
	requireEqual(t, got[1], event)
	requireEqual(t, got[2], outbox.Event{Topic: "bytes", Payload: allBytes()})

	db.exec(t, `SELECT outbox_write('t', 'k', NULL, 'é')`)
	if payload := db.read(t)[3].Payload; string(payload) != "é" {
		t.Errorf("outbox_write wrote %q, want UTF-8", payload)
	}
	for _, events := range [][]outbox.Event{{{Topic: "t", Key: "🎉"}}, {{Topic: "t"}, {Topic: "t", Key: "🎉"}}} {
		if err := db.writer(t, outbox.Config{}).Write(t.Context(), db.begin(t), events...); codeOf(err) != "22P05" {
			t.Errorf("a key that LATIN1 cannot hold: %v", err)
		}
	}
}

// The session's time zone and date style change no time.
func TestWrite_SessionSettingsChangeNothing(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	at := time.Date(2030, 5, 4, 3, 2, 1, 123_456_000, time.UTC)
	for _, settings := range []string{
		`SET TimeZone = 'Asia/Kolkata'; SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'sql_standard'; SET bytea_output = 'escape'`,
		`SET TimeZone = 'America/New_York'; SET DateStyle = 'German'; SET standard_conforming_strings = on`,
	} {
		conn := connect(t, db.url, pgx.QueryExecModeCacheStatement)
		if _, err := conn.Exec(t.Context(), settings); err != nil {
			t.Fatal(err)
		}
		tx := beginPgx(t, conn)
		event := outbox.Event{Topic: "t", Payload: allBytes(), AvailableAt: at}
		if err := db.writer(t, outbox.Config{}).Write(t.Context(), tx, event); err != nil {
			t.Fatal(err)
		}
		if err := db.writer(t, outbox.Config{}).Write(t.Context(), tx, event, event); err != nil {
			t.Fatal(err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
	}
	got := db.read(t)
	if len(got) != 6 {
		t.Fatalf("%d rows", len(got))
	}
	for _, e := range got {
		requireEqual(t, e, outbox.Event{Topic: "t", Payload: allBytes(), AvailableAt: at})
	}
}

// S45: sizes never reach the notification, and a key over the limit fails as
// itself, in Go before the SQL and in SQL by the table's own CHECK.
func TestS45_LargeEventsWithAnArmedDoorbell(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	conn := connect(t, db.url, pgx.QueryExecModeCacheStatement)
	w := db.writer(t, outbox.Config{MaxPayload: 16 << 20})
	armBell(t, db)
	tx := beginPgx(t, conn)
	if err := w.Write(t.Context(), tx, outbox.Event{Topic: "t", Payload: make([]byte, 10<<20)}); err != nil {
		t.Fatal(err)
	}
	armBell(t, db)
	if err := w.Write(t.Context(), tx, make10k()...); err != nil {
		t.Fatal(err)
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if n := db.count(t, `SELECT count(*) FROM {{outbox}}`); n != 10_001 {
		t.Fatalf("%d rows", n)
	}

	key := strings.Repeat("k", 8_000)
	err := w.Write(t.Context(), beginPgx(t, conn), outbox.Event{Topic: "t", Key: key})
	var invalid *outbox.ValidationError
	if !errors.As(err, &invalid) || invalid.Field != "key" {
		t.Errorf("got %v, want a *ValidationError of the key", err)
	}
	_, err = db.sql.ExecContext(t.Context(), `INSERT INTO outbox (topic, key, payload) VALUES ('t', $1, '')`, key)
	if codeOf(err) != "23514" || !strings.Contains(err.Error(), "outbox_key_length") {
		t.Errorf("got %v, want a violation of outbox_key_length", err)
	}
}

func make10k() []outbox.Event {
	events := make([]outbox.Event, 10_000)
	for i := range events {
		events[i] = outbox.Event{Topic: "t", Key: fmt.Sprint(i), Payload: []byte("{}")}
	}
	return events
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

var _ outbox.Tx = (*sql.Tx)(nil)
