package file

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/wire"
)

// Line is one line of the file, for readers.
type Line struct {
	Identity    string            `json:"identity"`
	DedupID     string            `json:"dedup_id"` // "" where it is the identity
	Destination string            `json:"destination"`
	Topic       string            `json:"topic"`
	Key         string            `json:"key"`
	Type        string            `json:"type"`
	ContentType string            `json:"content_type"`
	Generation  int               `json:"generation"`
	Created     time.Time         `json:"created"`
	Headers     map[string]string `json:"headers"`
	// At most one of these is there; none for a tombstone.
	Payload       json.RawMessage `json:"payload"`
	PayloadText   *string         `json:"payload_text"`
	PayloadBase64 *[]byte         `json:"payload_base64"`
}

// ParseLine reads one line.
func ParseLine(line []byte) (Line, error) {
	var l Line
	err := json.Unmarshal(line, &l)
	return l, err
}

// Body returns the payload's bytes as they were written; nil for a tombstone.
func (l *Line) Body() []byte {
	switch {
	case l.Payload != nil:
		return l.Payload
	case l.PayloadText != nil:
		return []byte(*l.PayloadText)
	case l.PayloadBase64 != nil:
		return *l.PayloadBase64
	}
	return nil
}

// appendLine writes an event as one line. Members without a value are left out.
func appendLine(b []byte, e *relay.Event) []byte {
	b = append(b, `{"identity":`...)
	b = wire.AppendJSONString(b, e.Identity)
	if e.DedupID != e.Identity {
		b = appendText(b, "dedup_id", e.DedupID)
	}
	if e.Destination != e.Topic {
		b = appendText(b, "destination", e.Destination)
	}
	b = appendText(b, "topic", e.Topic)
	b = appendText(b, "key", e.Key)
	b = appendText(b, "type", e.Type)
	b = appendText(b, "content_type", e.ContentType)
	if e.Generation > 0 {
		b = append(b, `,"generation":`...)
		b = strconv.AppendInt(b, int64(e.Generation), 10)
	}
	if !e.Created.IsZero() {
		b = append(b, `,"created":"`...)
		b = e.Created.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	b = appendHeaders(b, e.Headers)
	b = appendPayload(b, e.Payload)
	return append(b, '}', '\n')
}

func appendText(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return wire.AppendJSONString(b, value)
}

// appendHeaders sorts the names, so that equal events are equal lines.
func appendHeaders(b []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return b
	}
	b = append(b, `,"headers":{`...)
	for i, name := range slices.Sorted(maps.Keys(headers)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendJSONString(b, name)
		b = append(b, ':')
		b = wire.AppendJSONString(b, headers[name])
	}
	return append(b, '}')
}

func appendPayload(b, payload []byte) []byte {
	switch {
	case payload == nil:
		return b
	case embeds(payload):
		b = append(b, `,"payload":`...)
		return append(b, payload...)
	case utf8.Valid(payload):
		b = append(b, `,"payload_text":`...)
		return wire.AppendJSONString(b, string(payload))
	}
	b = append(b, `,"payload_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, payload)
	return append(b, '"')
}

// embeds reports whether a reader gets a payload back as it is when it stands in
// the line as it is: JSON, on one line, and without blanks around it, which a
// decoder takes for those of the line. The text null would read as no payload.
func embeds(payload []byte) bool {
	if len(payload) == 0 || blank(payload[0]) || blank(payload[len(payload)-1]) || string(payload) == "null" {
		return false
	}
	for _, c := range payload {
		if c == '\n' || c == '\r' {
			return false
		}
	}
	return json.Valid(payload) && utf8.Valid(payload)
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
