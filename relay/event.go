package relay

import "time"

// Event is what a [Broker] is given: addressed, encoded and ready to send. The
// relay has resolved the destination and package wire has made the attributes
// and the body; a broker only spells them in its protocol.
//
// A broker may read an Event and keep none of it after Publish returns.
type Event struct {
	// Identity is unique in the world and never changes: the event's uuid or,
	// for an adopted table without one, "<database>/<schema.table>/<id>".
	// Consumers' inboxes work on it.
	Identity string
	// DedupID is for the broker's own de-duplication: Identity, with
	// "#<generation>" behind it where Generation is above 0, so that a replay is
	// not swallowed.
	DedupID string
	// Database is the name of the database the event comes from.
	Database string
	// Topic, Key and Type are as the writer wrote them.
	Topic, Key, Type string
	// Destination is the name at the broker, made from the route's template:
	// a subject, a topic, a queue, a URL. Each token that came from the event
	// is percent-encoded where the broker's names forbid its characters.
	Destination string
	// ContentType is the media type of Payload.
	ContentType string
	// Generation is raised by each replay and each retry of a dead letter.
	Generation int
	// Payload is the body to send, byte for byte; nil is a tombstone.
	Payload []byte
	// Headers are the user's headers under their own names and, for the formats
	// that have attributes, those under the prefix "ce-", which a broker
	// respells in its protocol's way with wire.Respell. May be nil.
	Headers map[string]string
	// Created is when the writer inserted the event, Due when it took its place
	// in the order (later than Created for a scheduled or replayed event).
	Created, Due time.Time
}
