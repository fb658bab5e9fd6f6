package outbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// ContentTypeJSON is the content type of an event that names none.
const ContentTypeJSON = "application/json"

// Event is what an application announces. Topic and Payload are enough; the
// zero value of every other field has a meaning.
type Event struct {
	// ID is the event's identity for ever. Set it yourself, with NewID, to log
	// or return it; where it is zero, Write makes one.
	ID ID
	// Topic is the logical stream, 1 to 255 bytes. A route of the relay maps it
	// to a broker and a destination there.
	Topic string
	// Key orders: events of one topic and key are delivered in order. Usually
	// the id of the aggregate. At most 1,024 bytes; empty promises no order.
	Key string
	// Type says what happened, such as "order.placed". At most 255 bytes; empty
	// is NULL in the table, and the topic stands in for it on the wire.
	Type string
	// Payload is delivered byte for byte and never decoded. nil is a tombstone
	// (NULL in the table); an empty slice is an empty payload.
	Payload []byte
	// ContentType is the media type of Payload. Default "application/json".
	ContentType string
	// Headers travel with the event under their own names; docs/writing-events.md
	// lists which names are reserved. May be nil.
	Headers map[string]string
	// SchemaVersion is the version of the payload's schema; 0 is none.
	SchemaVersion int
	// SubjectVersion is the version of the aggregate after the change, for
	// consumers that drop what is older than they have; 0 is none.
	SubjectVersion int64
	// AvailableAt schedules the event: it takes its place in the order when that
	// time has come by the database's clock, and holds nobody before. The zero
	// time is at once. Kept to the microsecond in PostgreSQL, to the millisecond
	// in SQLite.
	AvailableAt time.Time
}

// JSON returns an event with v encoded as its payload, without the escaping of
// HTML characters and without a line break at the end. The error is that of
// encoding/json.
func JSON(topic, key, typ string, v any) (Event, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Event{}, fmt.Errorf("payload of an event of topic %q: %w", topic, err)
	}
	return Event{
		Topic: topic, Key: key, Type: typ,
		Payload:     bytes.TrimSuffix(b.Bytes(), []byte("\n")),
		ContentType: ContentTypeJSON,
	}, nil
}
