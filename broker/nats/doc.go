// Package nats publishes events to NATS JetStream.
//
// Accepted means that JetStream has stored the event: the stream's own
// acknowledgement of that very message. A plain NATS publish is never used.
//
// # How a call runs
//
//	Publish ──► heads of all keys ──► server ──► stream
//	               ▲                               │ ack, to one inbox per connection
//	               └──── next event of the key ◄───┘
//
// The first event of each key is sent at once. When its ack arrives, the next
// one of that key follows from the goroutine that read the ack, so keys do not
// wait for each other and a single key costs one round trip per event. A failure
// of any kind ends its key's chain: the rest reports relay.ErrHeld.
//
// The acks come to one wildcard subscription and carry call and index in their
// subject. This replaces the futures of nats.go, which decode each ack as JSON
// and answer through two channels per message.
//
// # Why nothing can be sent late
//
// While the client reconnects it buffers nothing: a publish fails at once. What
// it had buffered for a lost connection it drops with it. A publish that was
// given up and reaches the server later all the same (the network held it) is a
// copy of an event whose successors have not been sent, or one that the server's
// duplicate window knows.
//
// A server that stops reading blocks the write of a client that holds its lock.
// When the context of a call ends meanwhile, the connection is cut, and the
// client makes a new one.
//
// # What fails as one
//
// The subjects of one topic, see [Broker.Destination].
package nats
