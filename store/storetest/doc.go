// Package storetest is the conformance suite of all stores: one case for each
// sentence of the contracts in package relay, named by the sentence, and one
// bench.
//
// A store's test gives [Run] a function that makes a [Harness]: a fresh, empty
// outbox, a writer's transactions on it, and a look into its tables. [SQL] makes
// the last two for a database with database/sql. A case of an optional interface
// (relay.Leaser, Waker, Claimer, Reporter) is skipped where the store does not
// implement it, and says so.
package storetest
