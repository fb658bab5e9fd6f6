package outboxtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/postrider/postrider/outbox"
)

// Match is a condition on an event: Topic, Key, Type, JSON, Bytes, Tombstone,
// Header, ID or Func.
type Match struct {
	want string
	ok   func(e outbox.Event) bool
}

// Topic matches events of the topic.
func Topic(topic string) Match {
	return Match{fmt.Sprintf("topic %q", topic), func(e outbox.Event) bool { return e.Topic == topic }}
}

// Key matches events of the key.
func Key(key string) Match {
	return Match{fmt.Sprintf("key %q", key), func(e outbox.Event) bool { return e.Key == key }}
}

// Type matches events of the type; "" matches events without one.
func Type(typ string) Match {
	return Match{fmt.Sprintf("type %q", typ), func(e outbox.Event) bool { return e.Type == typ }}
}

// ID matches the event of that id.
func ID(id outbox.ID) Match {
	return Match{"id " + id.String(), func(e outbox.Event) bool { return e.ID == id }}
}

// Header matches events with that header; the name's case counts.
func Header(name, value string) Match {
	return Match{fmt.Sprintf("header %q: %q", name, value), func(e outbox.Event) bool {
		got, ok := e.Headers[name]
		return ok && got == value
	}}
}

// JSON matches payloads that mean the same as document, whatever the order of
// their members and their spaces. Numbers are compared as they are written.
func JSON(document string) Match {
	want, err := decode([]byte(document))
	return Match{"payload equal to the JSON " + document, func(e outbox.Event) bool {
		if err != nil {
			return false
		}
		got, gotErr := decode(e.Payload)
		return gotErr == nil && reflect.DeepEqual(got, want)
	}}
}

// Bytes matches payloads of exactly these bytes; nil matches as an empty slice
// does, and not a tombstone.
func Bytes(payload []byte) Match {
	return Match{fmt.Sprintf("payload of the %d bytes %.60q", len(payload), payload), func(e outbox.Event) bool {
		return e.Payload != nil && bytes.Equal(e.Payload, payload)
	}}
}

// Tombstone matches events without a payload.
func Tombstone() Match {
	return Match{"no payload", func(e outbox.Event) bool { return e.Payload == nil }}
}

// Func matches where ok returns true; name is what a failed test prints.
func Func(name string, ok func(e outbox.Event) bool) Match { return Match{name, ok} }

// find returns the first event that every match accepts.
func find(events []outbox.Event, matches []Match) (outbox.Event, bool) {
next:
	for _, e := range events {
		for _, m := range matches {
			if !m.ok(e) {
				continue next
			}
		}
		return e, true
	}
	return outbox.Event{}, false
}

// describe says what was looked for and what is there. A test's output may show
// payloads; they are the test's own.
func describe(events []outbox.Event, matches []Match) string {
	var b strings.Builder
	for i, m := range matches {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(m.want)
	}
	fmt.Fprintf(&b, "; the outbox holds %d events", len(events))
	const shown = 20
	for i, e := range events {
		if i == shown {
			fmt.Fprintf(&b, "\n  and %d more", len(events)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  topic %q, key %q, type %q, headers %q, payload %.200q", e.Topic, e.Key, e.Type, e.Headers, e.Payload)
	}
	return b.String()
}

func decode(document []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if dec.More() {
		return nil, fmt.Errorf("text behind the JSON document")
	}
	return v, nil
}
