package outbox

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The rules of an event. Those of topic and key are also CHECKs of the table,
// so that every language gets them; the others exist because some broker or
// column cannot hold what they forbid, and an event that is refused here would
// otherwise be a dead letter, long after its transaction.

const (
	maxTopic       = 255
	maxKey         = 1_024
	maxType        = 255
	maxContentType = 255
)

// check returns a *ValidationError for the first rule that e breaks.
func (c Config) check(index int, e *Event) error {
	refuse := func(field, reason string) error {
		return &ValidationError{Field: field, Index: index, Reason: reason}
	}
	if e.Topic == "" {
		return refuse("topic", "empty")
	}
	if p := textProblem(e.Topic, maxTopic); p != "" {
		return refuse("topic", p)
	}
	if p := textProblem(e.Key, maxKey); p != "" {
		return refuse("key", p)
	}
	if p := textProblem(e.Type, maxType); p != "" {
		return refuse("type", p)
	}
	if p := lineProblem(e.Type); p != "" {
		return refuse("type", p)
	}
	if len(e.Payload) > c.MaxPayload {
		return refuse("payload", fmt.Sprintf("%d bytes, at most %d are allowed", len(e.Payload), c.MaxPayload))
	}
	if p := textProblem(e.ContentType, maxContentType); p != "" {
		return refuse("content_type", p)
	}
	if p := lineProblem(e.ContentType); p != "" {
		return refuse("content_type", p)
	}
	if e.SchemaVersion < 0 || int64(e.SchemaVersion) > 1<<31-1 {
		return refuse("schema_version", fmt.Sprintf("%d is not between 0 and 2147483647", e.SchemaVersion))
	}
	if e.SubjectVersion < 0 {
		return refuse("subject_version", fmt.Sprintf("%d is negative", e.SubjectVersion))
	}
	// Outside these years the databases and RFC 3339 stop agreeing.
	if y := e.AvailableAt.UTC().Year(); !e.AvailableAt.IsZero() && (y < 1970 || y > 9999) {
		return refuse("available_at", fmt.Sprintf("year %d is not between 1970 and 9999", y))
	}
	return c.checkHeaders(index, e.Headers)
}

// textProblem says why s cannot be a text column of at most limit bytes.
func textProblem(s string, limit int) string {
	switch {
	case len(s) > limit:
		return fmt.Sprintf("%d bytes, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return "not UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		return "contains NUL" // PostgreSQL's text cannot hold it
	}
	return ""
}

// lineProblem says why s, which protocols put into a header line of their own,
// cannot stand there.
func lineProblem(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return "contains a control character"
		}
	}
	return ""
}

func (c Config) checkHeaders(index int, headers map[string]string) error {
	if len(headers) == 0 {
		return nil
	}
	if n := headerBytes(headers); n > c.MaxHeaders {
		return &ValidationError{"headers", index, fmt.Sprintf("%d bytes of names and values, at most %d are allowed", n, c.MaxHeaders)}
	}
	seen := make(map[string]struct{}, len(headers))
	for name, value := range headers {
		field := "headers[" + strconv.QuoteToASCII(name) + "]"
		if p := headerNameProblem(name); p != "" {
			return &ValidationError{field, index, p}
		}
		if p := headerValueProblem(value); p != "" {
			return &ValidationError{field, index, p}
		}
		// HTTP, NATS' canonical form and mail-like gateways fold case: two
		// spellings would arrive as one header, or as a list.
		lower := strings.ToLower(name)
		if _, twice := seen[lower]; twice {
			return &ValidationError{field, index, "another header differs only in case"}
		}
		seen[lower] = struct{}{}
	}
	return nil
}
