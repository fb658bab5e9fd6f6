package wire

import (
	"maps"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Attributes are kept under this prefix until a broker spells them.
const prefix = "ce-"

const (
	attrSpecVersion   = prefix + "specversion"
	attrID            = prefix + "id"
	attrSource        = prefix + "source"
	attrType          = prefix + "type"
	attrSubject       = prefix + "subject"
	attrTime          = prefix + "time"
	attrTraceparent   = prefix + "traceparent"
	attrTracestate    = prefix + "tracestate"
	attrGeneration    = prefix + "generation"
	attrSchemaVersion = prefix + "dataschemaversion"
)

// binary is CloudEvents in binary mode. The user's traceparent stays where the
// user put it, for consumers that know W3C headers, and is repeated as the
// extension of CloudEvents' own distributed tracing.
func (enc *Encoder) binary(e *Event) (Message, error) {
	m := Message{ContentType: e.ContentType, Payload: e.Payload}
	if e.Payload == nil {
		// No data, so nothing has a content type. It is also what tells a
		// tombstone from 0 bytes in protocols that cannot carry the difference.
		m.ContentType = ""
	}
	traceparent, traced := e.Headers["traceparent"]
	h := make(map[string]string, e.attributes(traced)+len(e.Headers))
	for name, value := range e.Headers {
		if enc.reserved(name) {
			return Message{}, &HeaderError{name, enc.format}
		}
		h[name] = value
	}
	h[attrSpecVersion] = "1.0"
	h[attrID] = e.Identity
	h[attrSource] = enc.source.of(e.Database)
	h[attrType] = e.eventType()
	if e.Key != "" { // an empty subject is no valid attribute
		h[attrSubject] = e.Key
	}
	if !e.Created.IsZero() {
		h[attrTime] = e.Created.UTC().Format(time.RFC3339Nano)
	}
	if traced {
		h[attrTraceparent] = traceparent
		if v, ok := e.Headers["tracestate"]; ok {
			h[attrTracestate] = v
		}
	}
	if e.Generation > 0 {
		h[attrGeneration] = strconv.Itoa(e.Generation)
	}
	if e.SchemaVersion != 0 {
		h[attrSchemaVersion] = strconv.Itoa(e.SchemaVersion)
	}
	m.Headers = h
	return m, nil
}

// attributes counts the attributes of an event. A map of up to 8 entries that is
// made for its size is one piece of memory and half as dear as a larger one, and
// most events have no more.
func (e *Event) attributes(traced bool) int {
	n := 4
	for _, there := range []bool{e.Key != "", !e.Created.IsZero(), traced, e.Generation > 0, e.SchemaVersion != 0} {
		if there {
			n++
		}
	}
	return n
}

// eventType is the attribute "type", which CloudEvents requires.
func (e *Event) eventType() string {
	if e.Type == "" {
		return e.Topic
	}
	return e.Type
}

// reserved reports whether the CloudEvents formats set a header of this name in
// some protocol: header names of HTTP know no case, so neither does this.
func (enc *Encoder) reserved(name string) bool {
	if name == "" || name[0]|0x20 != 'c' { // nearly every name ends here
		return false
	}
	if strings.EqualFold(name, "content-type") {
		return true
	}
	if enc.format != CloudEvents || len(name) < len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return false
	}
	switch prefix + strings.ToLower(name[len(prefix):]) {
	case attrSpecVersion, attrID, attrSource, attrType, attrSubject, attrTime,
		attrTraceparent, attrTracestate, attrGeneration, attrSchemaVersion,
		prefix + "datacontenttype":
		return true
	}
	return false
}

// sources makes the attribute "source" of each database once: a route may take
// events of several databases, and joining two strings per event is a tenth of
// the whole encoding.
type sources struct {
	fixed string
	made  atomic.Pointer[map[string]string]
}

func (s *sources) of(database string) string {
	if s.fixed != "" {
		return s.fixed
	}
	old := s.made.Load()
	if old != nil {
		if src, ok := (*old)[database]; ok {
			return src
		}
	}
	src := "postrider/" + url.PathEscape(database)
	grown := map[string]string{database: src}
	if old != nil {
		maps.Copy(grown, *old)
	}
	s.made.CompareAndSwap(old, &grown) // one that lost the race is made again
	return src
}
