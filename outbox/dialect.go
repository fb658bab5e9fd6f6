package outbox

import (
	"bytes"
	"encoding/json"
)

// Dialect is the kind of SQL that a database speaks.
type Dialect string

// The dialects that there are tables and statements for.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// inserts are the two statements of a dialect and the arguments they take.
//
// Both have a fixed text, whatever the number of events, because drivers and
// poolers cache prepared statements by their text. Arguments are only string,
// []byte, int64 and nil, which every driver passes on alike; arrays of other
// types are where database/sql, lib/pq and pgx part ways.
type inserts struct {
	one, many string
	oneArgs   func(e *Event) []any
	manyArgs  func(events []Event) []any
}

func (d Dialect) inserts() (inserts, error) {
	switch d {
	case Postgres:
		return postgresInserts, nil
	case SQLite:
		return sqliteInserts, nil
	}
	return inserts{}, errDialect(d)
}

// pack joins the payloads into one argument, of which the statement cuts each
// row's slice out again: raw bytes cross the wire once, without the escaping
// that an array of them would need.
func pack(events []Event) []byte {
	n := 0
	for _, e := range events {
		n += len(e.Payload)
	}
	packed := make([]byte, 0, n)
	for _, e := range events {
		packed = append(packed, e.Payload...)
	}
	return packed
}

// payloadArg is NULL for a tombstone.
func payloadArg(e *Event) any {
	if e.Payload == nil {
		return nil
	}
	return e.Payload
}

// orNull makes the zero value NULL.
func orNull[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// headersJSON is the object of the headers column, in the order of the names,
// or "" for none.
func headersJSON(headers map[string]string) string {
	if len(headers) == 0 {
		return ""
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(headers) // a map of strings cannot fail
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
