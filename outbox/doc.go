// Package outbox writes events as rows, in the same database transaction as the
// change that they are about. A relay publishes the committed rows, at least
// once, and in order per key.
//
//	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{}) // once
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	// … the change: INSERT INTO orders …
//	event, err := outbox.JSON("orders", "42", "order.placed", order)
//	err = w.Write(ctx, tx, event)
//	err = tx.Commit()
//
// The event exists if and only if the transaction commits. Writing it takes one
// INSERT and the right to INSERT into one table, and depends on nothing else: no
// relay, no broker, no connection of its own.
//
// With pgx, pass outbox.Pgx(tx). A pool or a connection does not compile: an
// event outside the transaction of its change is what an outbox prevents.
//
// The package needs the standard library only. Package inbox is the consumer's
// side, package outboxtest is for an application's tests. docs/writing-events.md
// has the rules of headers, the limits, SQL for other languages, and ORMs.
package outbox
