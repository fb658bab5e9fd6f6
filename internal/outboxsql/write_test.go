package outboxsql

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
)

// allBytes is every byte value.
func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// awkward are events of which each has something that a driver, an array
// literal or a JSON document could read as syntax.
func awkward() []outbox.Event {
	syntax := `{"a",NULL,\x41,'b''c',$1,?,:x,--,/*;` + "\t\n\r" + `}`
	return []outbox.Event{
		{Topic: "plain", Payload: []byte("{}")},
		{Topic: "NULL", Key: "null", Type: "NULL", Payload: []byte("NULL")},
		{
			Topic: syntax, Key: syntax, Type: `{"t",NULL,\x41,'b''c',$1,?}`, Payload: []byte(syntax), ContentType: `a/b; x="y\"{}"`,
			Headers: map[string]string{"x": `{"a",NULL,\x41,'b''c',$1,?,<&>}`, "empty": "", "tab": "\t"},
		},
		{Topic: "emoji 🎉", Key: "ключ 🗝 \u2028\ufffd", Payload: []byte("🎉"), Headers: map[string]string{"x": "🎉 \u2028 \u0001"}},
		{Topic: "tombstone", Key: "k", Payload: nil},
		{Topic: "empty", Key: "k", Payload: []byte{}},
		{Topic: "bytes", Key: strings.Repeat("k", 1_024), Payload: allBytes(), ContentType: "application/octet-stream"},
		{Topic: strings.Repeat("t", 255), SchemaVersion: 1<<31 - 1, SubjectVersion: 1<<63 - 1, Payload: []byte("x")},
		{Topic: "later", Payload: []byte("x"), AvailableAt: time.Date(2030, 3, 31, 2, 30, 0, 123_000_000, time.FixedZone("x", -3_600*9-1_800))},
		{Topic: "early", Payload: []byte("x"), AvailableAt: time.Date(1970, 1, 1, 0, 0, 0, 1_000_000, time.UTC)},
		{Topic: "given id", ID: outbox.NewID(), Payload: []byte("x")},
	}
}

func requireEqual(t *testing.T, got, want outbox.Event) {
	t.Helper()
	if !want.ID.IsZero() && got.ID != want.ID {
		t.Errorf("topic %q: id %s, want %s", want.Topic, got.ID, want.ID)
	}
	if got.ID.IsZero() {
		t.Errorf("topic %q: no id", want.Topic)
	}
	if got.Topic != want.Topic || got.Key != want.Key || got.Type != want.Type {
		t.Errorf("got %q, %q, %q, want %q, %q, %q", got.Topic, got.Key, got.Type, want.Topic, want.Key, want.Type)
	}
	if (got.Payload == nil) != (want.Payload == nil) || sha256.Sum256(got.Payload) != sha256.Sum256(want.Payload) {
		t.Errorf("topic %q: payload of %d bytes %.40q, want %d bytes %.40q", want.Topic, len(got.Payload), got.Payload, len(want.Payload), want.Payload)
	}
	if want.ContentType == "" {
		want.ContentType = outbox.ContentTypeJSON
	}
	if got.ContentType != want.ContentType {
		t.Errorf("topic %q: content type %q, want %q", want.Topic, got.ContentType, want.ContentType)
	}
	if !maps.Equal(got.Headers, want.Headers) {
		t.Errorf("topic %q: headers %q, want %q", want.Topic, got.Headers, want.Headers)
	}
	if got.SchemaVersion != want.SchemaVersion || got.SubjectVersion != want.SubjectVersion {
		t.Errorf("topic %q: versions %d, %d, want %d, %d", want.Topic, got.SchemaVersion, got.SubjectVersion, want.SchemaVersion, want.SubjectVersion)
	}
	if !got.AvailableAt.Equal(want.AvailableAt) {
		t.Errorf("topic %q: available at %s, want %s", want.Topic, got.AvailableAt, want.AvailableAt)
	}
}

func TestWrite_RowsAreExactlyTheEvents(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		events := awkward()
		for _, e := range events {
			db.write(t, outbox.Config{}, e) // the statement for one
		}
		db.write(t, outbox.Config{}, events...) // the statement for many
		got := db.read(t)
		if len(got) != 2*len(events) {
			t.Fatalf("%d rows, want %d", len(got), 2*len(events))
		}
		for i, e := range events {
			requireEqual(t, got[i], e)
			requireEqual(t, got[len(events)+i], e)
		}
		// What was not given is what a plain INSERT would have made of it.
		if n := db.count(t, `SELECT count(*) FROM {{outbox}} WHERE topic = 'plain' AND key = '' AND type IS NULL
			AND schema_version IS NULL AND subject_version IS NULL AND headers IS NULL AND available_at IS NULL
			AND held IS NULL AND retry_at IS NULL AND attempts = 0 AND generation = 0`); n != 2 {
			t.Errorf("%d rows with the table's defaults, want 2", n)
		}
	})
}

func TestWrite_OnlyTombstonesAndOnlyEmptyPayloads(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		db.write(t, outbox.Config{}, outbox.Event{Topic: "a"}, outbox.Event{Topic: "b"})
		db.write(t, outbox.Config{}, outbox.Event{Topic: "c", Payload: []byte{}}, outbox.Event{Topic: "d", Payload: []byte{}})
		for _, e := range db.read(t) {
			if tombstone := e.Topic < "c"; (e.Payload == nil) != tombstone {
				t.Errorf("topic %s: payload %v", e.Topic, e.Payload)
			}
		}
	})
}

// S45 and guarantee 3: many events of one transaction get ids in their order.
func TestWrite_TenThousandEventsInTheirOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		events := make([]outbox.Event, 12_345)
		for i := range events {
			events[i] = outbox.Event{Topic: "t", Key: fmt.Sprint(i % 7), Payload: fmt.Append(nil, i)}
		}
		db.write(t, outbox.Config{}, events...)
		got := db.read(t)
		if len(got) != len(events) {
			t.Fatalf("%d rows, want %d", len(got), len(events))
		}
		for i, e := range got {
			if !bytes.Equal(e.Payload, events[i].Payload) {
				t.Fatalf("row %d holds event %s", i, e.Payload)
			}
		}
	})
}

// S59, the half of PostgreSQL and SQLite: nothing is cut.
func TestS59_PayloadSizes(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		config := outbox.Config{MaxPayload: 32 << 20}
		var events []outbox.Event
		for _, size := range []int{0, 1, 65_535, 65_536, 16<<20 + 1} {
			payload := bytes.Repeat(allBytes(), size/256+1)[:size]
			events = append(events, outbox.Event{Topic: fmt.Sprint(size), Key: "🎉", Payload: payload, Headers: map[string]string{"x": "🎉"}})
		}
		db.write(t, config, events...) // the largest one goes in a statement of its own
		got := db.read(t)
		for i, e := range events {
			requireEqual(t, got[i], e)
		}
	})
}

// S65: what jsonb and text cannot hold is an ordinary payload.
func TestS65_NULAndSurrogatesInPayloads(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		payloads := []string{`{"a":"\u0000"}`, "\x00", "a\x00b", `{"a":"\ud800"}`, "\xed\xa0\x80", "\xff\xfe"}
		requirePayloads(t, db, payloads)
	})
}

// S67: the document is not parsed, so it is not rewritten.
func TestS67_PayloadBytesAreKept(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		requirePayloads(t, db, []string{"{\"zebra\":1,\"a\":2,\"a\":3, \"n\":1.0e2 }", " {} \n", "\ufeff{}", "{\"n\":12345678901234567890.0}", "\\x41", "\\101"})
	})
}

func requirePayloads(t *testing.T, db *database, payloads []string) {
	t.Helper()
	events := make([]outbox.Event, len(payloads))
	for i, p := range payloads {
		events[i] = outbox.Event{Topic: "t", Payload: []byte(p)}
		db.write(t, outbox.Config{}, events[i])
	}
	db.write(t, outbox.Config{}, events...)
	for i, e := range db.read(t) {
		requireEqual(t, e, events[i%len(events)])
	}
}

// S10: an event exists if and only if its transaction committed.
func TestS10_RollbackAndSavepointLeaveNothing(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		db.exec(t, "CREATE TABLE orders (id int PRIMARY KEY)")
		w := db.writer(t, outbox.Config{})
		run := func(tx *transaction, query string) {
			t.Helper()
			if err := tx.exec(query); err != nil {
				t.Fatal(err)
			}
		}
		write := func(tx *transaction, topics ...string) {
			t.Helper()
			var events []outbox.Event
			for _, topic := range topics {
				events = append(events, outbox.Event{Topic: topic})
			}
			if err := w.Write(t.Context(), tx, events...); err != nil {
				t.Fatal(err)
			}
		}

		tx := db.begin(t)
		run(tx, "INSERT INTO orders VALUES (1)")
		write(tx, "rolled back")
		write(tx, "rolled back", "rolled back")
		if err := tx.rollback(); err != nil {
			t.Fatal(err)
		}

		tx = db.begin(t)
		run(tx, "INSERT INTO orders VALUES (2)")
		write(tx, "kept")
		run(tx, "SAVEPOINT s")
		write(tx, "to the savepoint", "to the savepoint")
		run(tx, "ROLLBACK TO SAVEPOINT s")
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}

		tx = db.begin(t)
		write(tx, "before a violation")
		if err := tx.exec("INSERT INTO orders VALUES (2)"); err == nil {
			t.Fatal("a duplicate key was inserted")
		}
		_ = tx.rollback()

		got := db.read(t)
		if len(got) != 1 || got[0].Topic != "kept" || db.count(t, "SELECT count(*) FROM orders") != 1 {
			t.Fatalf("got %v", got)
		}
	})
}

func TestWrite_ARefusedEventLeavesTheTransactionUsable(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		w := db.writer(t, outbox.Config{})
		tx := db.begin(t)
		err := w.Write(t.Context(), tx, outbox.Event{Topic: "good"}, outbox.Event{Topic: "bad", Key: "\x00"})
		var invalid *outbox.ValidationError
		if !errors.As(err, &invalid) || invalid.Field != "key" || invalid.Index != 1 {
			t.Fatalf("got %v", err)
		}
		if err := w.Write(t.Context(), tx, outbox.Event{Topic: "after"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if got := db.read(t); len(got) != 1 || got[0].Topic != "after" {
			t.Fatalf("got %v", got)
		}
	})
}
