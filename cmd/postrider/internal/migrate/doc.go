// Package migrate makes, changes and removes Postrider's own tables, with goose
// as a library over the migrations of the outbox module.
//
// # What it adds to goose
//
// One run at a time: two deployments that migrate at the same moment run each
// migration once. On PostgreSQL a transaction of its own holds an advisory lock
// for as long as the run takes; a lock of a transaction, not of a session, works
// behind a pooler too. On every database the record of a version is a primary
// key written in the migration's own transaction, so that a second run of the
// same one cannot commit.
//
// Whose tables: before anything is made, the names are looked for. A table that
// no version record speaks of is somebody else's and is left alone.
//
// No loss: Down refuses while an event is undelivered or dead, and looks again
// inside the transaction that drops the tables, under a lock that keeps writers
// out.
//
// The record lies in <prefix>_schema beside the tables, so that several outboxes
// share a database and the record goes where the tables go. Tables that were
// made with another tool have no record here; Up says so.
package migrate
