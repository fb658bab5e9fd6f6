package wire

import (
	"fmt"
	"slices"
	"strings"
)

// The formats of a route.
const (
	// CloudEvents is CloudEvents 1.0 in binary mode: attributes in headers, the
	// payload untouched as the body. The default.
	CloudEvents = "cloudevents"
	// Structured is CloudEvents 1.0 in structured mode: one JSON envelope that
	// holds the payload's bytes as they are, or in base64 where they are no JSON.
	Structured = "structured"
	// Raw is the payload and the writer's headers, nothing else.
	Raw = "raw"
	// Debezium is what Debezium's outbox event router sends: the payload and a
	// header "id".
	Debezium = "debezium"
	// Watermill is what Watermill's marshalers send: the payload, a header with
	// the message's uuid, and the metadata as headers.
	Watermill = "watermill"
)

// Formats returns the names that New knows.
func Formats() []string {
	return []string{CloudEvents, Structured, Raw, Debezium, Watermill}
}

// DefaultDestination returns the destination template of a route that names
// none: "{topic}", and for Debezium its router's own default.
func DefaultDestination(format string) string {
	if format == Debezium {
		return "outbox.event.{topic}"
	}
	return "{topic}"
}

// Encoder encodes events in one format. Safe for concurrent use.
type Encoder struct {
	format string
	source sources
	encode func(*Encoder, *Event) (Message, error)
}

// New returns an encoder of a format; "" is CloudEvents. source is the
// CloudEvents attribute of that name, a URI reference; "" stands for
// "postrider/<database>", the database's name percent-encoded.
func New(format, source string) (*Encoder, error) {
	enc := &Encoder{format: format, source: sources{fixed: source}}
	switch format {
	case "", CloudEvents:
		enc.format, enc.encode = CloudEvents, (*Encoder).binary
	case Structured:
		enc.encode = (*Encoder).structured
	case Raw:
		enc.encode = (*Encoder).raw
	case Debezium:
		enc.encode = (*Encoder).debezium
	case Watermill:
		enc.encode = (*Encoder).watermill
	default:
		known := slices.Sorted(slices.Values(Formats()))
		return nil, fmt.Errorf("wire format %q: unknown, not one of %s", format, strings.Join(known, ", "))
	}
	if strings.ContainsAny(source, " \t\r\n") {
		return nil, fmt.Errorf("wire source %q: not a URI reference", source)
	}
	return enc, nil
}

// Encode makes the message of an event. It reads e and keeps none of it, but the
// message may share e's headers and payload. The one error is a [HeaderError].
func (enc *Encoder) Encode(e *Event) (Message, error) { return enc.encode(enc, e) }

// HeaderError is returned by Encode for an event that carries a header which its
// route's format sets itself: one of the two would be lost. The Go writer refuses
// such an event; one that came by plain SQL is met here, and stays with its
// route's policy for failures.
type HeaderError struct {
	// Name is the header's name, Format the format that sets it.
	Name, Format string
}

func (e *HeaderError) Error() string {
	return fmt.Sprintf("header %q: set by the format %s itself", e.Name, e.Format)
}
