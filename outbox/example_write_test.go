package outbox_test

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

// An order and its event are one transaction.
func ExampleWriter_Write() {
	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{})
	if err != nil {
		panic(err)
	}
	place := func(ctx context.Context, tx outbox.Tx, id, cents int64) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, cents) VALUES ($1, $2)`, id, cents); err != nil {
			return err
		}
		event, err := outbox.JSON("orders", fmt.Sprint(id), "order.placed", map[string]int64{"cents": cents})
		if err != nil {
			return err
		}
		return w.Write(ctx, tx, event)
	}
	_ = func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if err := place(ctx, tx, 42, 999); err != nil {
			return err
		}
		return tx.Commit()
	}
}

// A Recorder stands in for the transaction in a test without a database.
func ExampleWriter_Write_recorded() {
	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{})
	if err != nil {
		panic(err)
	}
	rec := &outboxtest.Recorder{}
	err = w.Write(context.Background(), rec, outbox.Event{Topic: "orders", Key: "42", Payload: []byte(`{}`)})
	fmt.Println(err, len(rec.Events()), rec.Events()[0].Topic)

	err = w.Write(context.Background(), rec, outbox.Event{Topic: "orders", Headers: map[string]string{"Nats-Msg-Id": "1"}})
	fmt.Println(err)
	// Output:
	// <nil> 1 orders
	// event 0: headers["Nats-Msg-Id"]: prefix nats- is reserved by NATS
}
