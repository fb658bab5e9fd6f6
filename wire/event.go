package wire

import "time"

// Event is what an encoder reads. Encode changes nothing in it.
type Event struct {
	// Identity is unique in the world and never changes on retry or replay.
	Identity string
	// Database is the configured name of the database the event comes from.
	Database string
	// Topic, Key and Type are as the writer wrote them; Key and Type may be "".
	Topic, Key, Type string
	// ContentType is the media type of Payload; "" where it is unknown.
	ContentType string
	// SchemaVersion is the writer's; 0 where it gave none.
	SchemaVersion int
	// Generation is raised by each replay; 0 for a first delivery.
	Generation int
	// Payload is nil for a tombstone, which is not the same as 0 bytes.
	Payload []byte
	// Headers are the writer's own. May be nil.
	Headers map[string]string
	// Created is when the writer inserted the event; zero where it is unknown.
	Created time.Time
}

// Message is an encoded event.
type Message struct {
	// Headers are the writer's headers under their own names and the format's.
	// CloudEvents attributes stand under the prefix "ce-", see [Respell]. Values
	// are plain text: a broker encodes what its protocol cannot carry. Where a
	// format adds nothing this is the event's own map: read it only. May be nil.
	Headers map[string]string
	// ContentType is the media type of Payload, for the protocol's own place
	// for it, which is a header "content-type" in protocols that have none.
	// "" says to send none: a tombstone, or the writer set a header of that name.
	ContentType string
	// Payload is the body; nil is a tombstone. In the formats that leave the
	// body alone it is the event's own slice.
	Payload []byte
}
