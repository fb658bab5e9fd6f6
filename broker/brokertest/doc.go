// Package brokertest is the conformance suite of all brokers: each sentence of
// [relay.Broker]'s contract is a case of that name. A broker's own test finds its
// server, fills a [Harness] and calls [Run]; its benchmark calls [Bench].
//
// It also plays a relay in miniature, which sends again what has failed and
// checks what a relay relies on: nothing accepted is missing, first deliveries of
// a key are in order, and a result never says more than the destination did.
//
// It does not test formats (package wire does) nor what is special to a protocol
// (the broker's own tests do).
package brokertest
