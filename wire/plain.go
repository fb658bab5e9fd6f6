package wire

import "strings"

const (
	debeziumID    = "id"
	watermillUUID = "_watermill_message_uuid"
)

// raw adds nothing, so it copies nothing.
func (enc *Encoder) raw(e *Event) (Message, error) {
	return Message{Headers: e.Headers, ContentType: e.plainType(), Payload: e.Payload}, nil
}

// debezium is what Debezium's outbox event router makes of a row: value =
// payload, record key = key, a header "id" for consumers to de-duplicate by.
func (enc *Encoder) debezium(e *Event) (Message, error) { return enc.plain(e, debeziumID) }

// watermill is what Watermill's NATS and Kafka marshalers write: the message's
// uuid in a header of that name, its metadata (here the writer's headers) as
// headers, its payload as the body.
func (enc *Encoder) watermill(e *Event) (Message, error) { return enc.plain(e, watermillUUID) }

// plain is the payload, the writer's headers and one header with the identity.
func (enc *Encoder) plain(e *Event, id string) (Message, error) {
	h := make(map[string]string, 1+len(e.Headers))
	for name, value := range e.Headers {
		if strings.EqualFold(name, id) {
			return Message{}, &HeaderError{name, enc.format}
		}
		h[name] = value
	}
	h[id] = e.Identity
	return Message{Headers: h, ContentType: e.plainType(), Payload: e.Payload}, nil
}

// plainType is the content type of the formats without attributes. A header of
// that name is the writer's, and stays the only one.
func (e *Event) plainType() string {
	if e.Payload == nil {
		return ""
	}
	for name := range e.Headers {
		if strings.EqualFold(name, "content-type") {
			return ""
		}
	}
	return e.ContentType
}
