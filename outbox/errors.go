package outbox

import (
	"errors"
	"fmt"
)

// ErrNoTransaction is returned by Write for a nil Tx. An event that is not
// written in the transaction of its change is the dual write that an outbox
// exists to prevent.
var ErrNoTransaction = errors.New("no transaction")

// errMalformedID does not repeat the text: it may be anything.
var errMalformedID = errors.New("event id is not a uuid of 36 characters")

// ValidationError is returned before any SQL is run when an event breaks a rule
// of the outbox; nothing was written and the transaction is still usable. It
// never holds a payload, a key or a header's value.
type ValidationError struct {
	// Field is the name in snake case as in the table: topic, key, type,
	// payload, content_type, headers, schema_version, subject_version,
	// available_at. For one header it is headers["name"].
	Field string
	// Index is the position of the event in the call.
	Index int
	// Reason says which rule is broken and what the limit is.
	Reason string
}

// Error names the event by its position, the field and the rule.
func (e *ValidationError) Error() string {
	return fmt.Sprintf("event %d: %s: %s", e.Index, e.Field, e.Reason)
}

// NameError is returned for a name of a table that cannot be used.
type NameError struct {
	// Field is the field of Names: Schema, Table, Prefix or Inbox.
	Field string
	// Name is the name that was given.
	Name string
	// Reason says why it cannot be used.
	Reason string
}

// Error names the field, the name and the rule.
func (e *NameError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, e.Name, e.Reason)
}

// RowsError is returned by Write when the database reports another number of
// inserted rows than there were events, as a trigger that swallows rows makes
// it. The transaction must be rolled back: events are missing.
type RowsError struct {
	// Table is the outbox that was written to.
	Table string
	// Events is how many rows should have been inserted, Rows how many were.
	Events, Rows int64
}

// Error says how many rows are missing.
func (e *RowsError) Error() string {
	return fmt.Sprintf("insert into %s: %d rows for %d events", e.Table, e.Rows, e.Events)
}

// errDialect is returned for a Dialect that there are no tables for.
func errDialect(d Dialect) error {
	return fmt.Errorf("sql dialect %q: not one of %q, %q", string(d), string(Postgres), string(SQLite))
}
