// Package outboxtest helps an application's tests.
//
// With a database: RequireWritten looks into the outbox, in the transaction
// that wrote or after its commit.
//
//	outboxtest.RequireWritten(t, tx, outboxtest.Topic("orders"), outboxtest.Key("42"),
//		outboxtest.JSON(`{"id": 42}`))
//	outboxtest.RequireWritten(t, outboxtest.Pgx(pgxTx), outboxtest.Type("order.placed"))
//
// Without one: a Recorder is the transaction, and keeps what would be written.
//
//	rec := &outboxtest.Recorder{}
//	err := placeOrder(ctx, rec) // calls writer.Write(ctx, rec, …)
//	rec.RequireWritten(t, outboxtest.Topic("orders"))
//
// A relay that runs beside the test moves delivered events out of the outbox,
// so run none, or look before the commit.
package outboxtest
