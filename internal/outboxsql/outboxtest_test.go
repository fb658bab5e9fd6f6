package outboxsql

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

func TestRequireWritten_OnEveryDriver(t *testing.T) {
	onEach(t, func(t *testing.T, db *database) {
		event := outbox.Event{Topic: "orders", Key: "42", Type: "order.placed", Payload: []byte(`{"id": 42, "n": 1.0}`), Headers: map[string]string{"x": "y"}}
		db.write(t, outbox.Config{}, event, outbox.Event{Topic: "gone", Key: "42"}, outbox.Event{Topic: "empty", Payload: []byte{}})

		outboxtest.RequireWritten(t, db.sql, outboxtest.Topic("gone"), outboxtest.Tombstone())
		outboxtest.RequireWritten(t, db.sql, outboxtest.Topic("empty"), outboxtest.Bytes(nil))
		got := outboxtest.RequireWrittenTo(t, db.sql, outboxtest.Table(db.dialect, db.names), outboxtest.Topic("orders"), outboxtest.Key("42"),
			outboxtest.Type("order.placed"), outboxtest.JSON(`{"n":1.0,"id":42}`), outboxtest.Header("x", "y"))
		requireEqual(t, got, event)
		outboxtest.RequireNotWritten(t, db.sql, outboxtest.JSON(`{"id":42}`))
	})
}

func TestRequireWritten_SeesTheTransactionsOwnRows(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	w := db.writer(t, outbox.Config{})
	conn := connect(t, db.url, pgx.QueryExecModeCacheStatement)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if err := w.Write(t.Context(), outbox.Pgx(tx), outbox.Event{Topic: "t"}, outbox.Event{Topic: "empty", Payload: []byte{}}); err != nil {
		t.Fatal(err)
	}
	outboxtest.RequireWritten(t, outboxtest.Pgx(tx), outboxtest.Topic("t"), outboxtest.Tombstone())
	outboxtest.RequireWritten(t, outboxtest.Pgx(tx), outboxtest.Topic("empty"), outboxtest.Bytes([]byte{}))
	outboxtest.RequireNotWritten(t, db.sql)

	plain, err := db.sql.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plain.Rollback() }()
	if err := w.Write(t.Context(), plain, outbox.Event{Topic: "plain"}); err != nil {
		t.Fatal(err)
	}
	outboxtest.RequireWritten(t, plain, outboxtest.Topic("plain"))
}
