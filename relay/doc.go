// Package relay moves committed events from an outbox to a message broker: at
// least once, and in order per key.
//
//	fetch ──► dispatch ──► broker.Publish ──► settle
//	  │           │                              │
//	store     per-key order, retry,         one batched statement:
//	          fairness between topics       delivered / held / dead
//
// A [Store] is an adapter to one kind of database, a [Broker] one to a kind of
// message broker; this package imports neither. Everything that decides when an
// event is sent, again or not at all lives here, so that every pair of a store
// and a broker behaves alike.
package relay
