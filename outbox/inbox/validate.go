package inbox

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// An index row of PostgreSQL holds about 2,700 bytes; the two parts of the
	// primary key must fit together. The longest identity is that of an adopted
	// table: its database, its quoted name and its id.
	maxConsumer = 255
	maxIdentity = 1_024
)

// FieldError is returned by Process before any SQL is run for a consumer or an
// id that the inbox cannot hold.
type FieldError struct {
	// Field is consumer or id.
	Field string
	// Reason says which rule is broken and what the limit is.
	Reason string
}

// Error names the field and the rule.
func (e *FieldError) Error() string { return "inbox: " + e.Field + ": " + e.Reason }

func check(consumer string, m Message) error {
	if p := problem(consumer, maxConsumer); p != "" {
		return &FieldError{"consumer", p}
	}
	// Without an identity every event would be the repeat of the first.
	if p := problem(m.ID, maxIdentity); p != "" {
		return &FieldError{"id", p}
	}
	return nil
}

func problem(s string, limit int) string {
	switch {
	case s == "":
		return "empty"
	case len(s) > limit:
		return fmt.Sprintf("%d bytes, at most %d are allowed", len(s), limit)
	case !utf8.ValidString(s):
		return "not UTF-8"
	case strings.IndexByte(s, 0) >= 0:
		return "contains NUL"
	}
	return ""
}
