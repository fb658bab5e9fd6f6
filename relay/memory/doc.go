// Package memory is a store and a broker in memory: the executable meaning of
// the contracts in package relay, and what tests run against. It is for tests
// and not for production: nothing is durable.
//
// A [Database] is shared by any number of [Store] values, as a server is by its
// clients; a [Server] likewise by [Broker] values. All of it is deterministic:
// time comes from the time package alone, ids from counters, and no goroutine
// outlives a call, so that it runs inside testing/synctest.
//
// # What the store does as a database does
//
// An id is drawn at insert and the row becomes visible at commit, so a lower id
// may appear after a higher one. A fetch sees one snapshot. A write is one
// transaction. The doorbell rings at the commit of a transaction that inserted
// while it was armed.
//
// # What is decided here where the contract leaves it open
//
// An empty key promises no order, so it is never closed: a held event without a
// key holds nobody, and a read of the empty key returns each of its held rows
// that is due, whatever the others do. Marking a held row [relay.HeldBehind]
// changes nothing: a late mark of another relay must not un-block it. A dead
// letter whose fence is not live is left out and counted as missed.
package memory
