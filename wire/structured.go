package wire

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const structuredType = "application/cloudevents+json"

// structured is CloudEvents in structured mode. The envelope is written by hand
// around the payload's own bytes: decoding and encoding them again would round
// large numbers, sort keys and drop duplicate ones.
//
// The writer's headers stay headers of the message, under their own names.
func (enc *Encoder) structured(e *Event) (Message, error) {
	for name := range e.Headers {
		if enc.reserved(name) {
			return Message{}, &HeaderError{name, enc.format}
		}
	}
	b := make([]byte, 0, 320+len(e.Payload)+len(e.Payload)/2)
	b = append(b, `{"specversion":"1.0"`...)
	b = appendMember(b, "id", e.Identity)
	b = appendMember(b, "source", enc.source.of(e.Database))
	b = appendMember(b, "type", e.eventType())
	if e.Key != "" {
		b = appendMember(b, "subject", e.Key)
	}
	if !e.Created.IsZero() {
		b = append(b, `,"time":"`...)
		b = e.Created.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, '"')
	}
	if v, ok := e.Headers["traceparent"]; ok {
		b = appendMember(b, "traceparent", v)
		if v, ok := e.Headers["tracestate"]; ok {
			b = appendMember(b, "tracestate", v)
		}
	}
	if e.Generation > 0 {
		b = append(b, `,"generation":`...)
		b = strconv.AppendInt(b, int64(e.Generation), 10)
	}
	if e.SchemaVersion != 0 {
		b = append(b, `,"dataschemaversion":`...)
		b = strconv.AppendInt(b, int64(e.SchemaVersion), 10)
	}
	if e.Payload != nil {
		b = appendData(b, e.ContentType, e.Payload)
	}
	return Message{Headers: e.Headers, ContentType: structuredType, Payload: append(b, '}')}, nil
}

// appendData embeds the payload. Bytes that claim to be JSON and are not would
// spoil the whole envelope; they go as base64, which CloudEvents allows for any
// content type.
func appendData(b []byte, contentType string, payload []byte) []byte {
	if contentType != "" {
		b = appendMember(b, "datacontenttype", contentType)
	}
	// json.Valid lets broken UTF-8 in strings pass.
	if isJSON(contentType) && json.Valid(payload) && utf8.Valid(payload) {
		b = append(b, `,"data":`...)
		return append(b, payload...)
	}
	b = append(b, `,"data_base64":"`...)
	b = base64.StdEncoding.AppendEncode(b, payload)
	return append(b, '"')
}

// isJSON reports whether a media type is JSON: a subtype "json" or one that ends
// in "+json", whatever its parameters. CloudEvents reads a missing one as JSON.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || strings.HasSuffix(media, "/json") || strings.HasSuffix(media, "+json")
}

func appendMember(b []byte, name, value string) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return AppendJSONString(b, value)
}

// AppendJSONString appends a JSON string without the HTML escapes of encoding/json,
// so that a key "a&b" is legible.
func AppendJSONString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s { // broken UTF-8 becomes U+FFFD: JSON cannot hold it
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20 || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
