package outbox

import (
	"strconv"
	"strings"
)

// PostgreSQL takes many rows as arrays, one per column: a statement of 5,000
// rows of VALUES would have 50,000 parameters, near the protocol's limit of
// 65,535, and another text for each number of rows. The arrays are literals
// that are built here and cast by the server. They keep the order of the
// events: a function in FROM is read front to back, and an INSERT draws its
// identities as it reads.
var postgresInserts = inserts{
	one: `INSERT INTO {{outbox}}
    (event_id, topic, key, type, schema_version, subject_version, payload, content_type, headers, available_at)
VALUES ($1::uuid, $2::text, $3::text, $4::text, $5::integer, $6::bigint, $7::bytea, $8::text, $9::jsonb, $10::timestamptz)`,
	many: `INSERT INTO {{outbox}}
    (event_id, topic, key, type, schema_version, subject_version, payload, content_type, headers, available_at)
SELECT e.event_id, e.topic, e.key, e.type, e.schema_version, e.subject_version,
       pg_catalog.substr($1::bytea, e.start, e.length), e.content_type, e.headers, e.available_at
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::bigint[],
            $8::integer[], $9::integer[], $10::text[], $11::jsonb[], $12::timestamptz[])
  AS e (event_id, topic, key, type, schema_version, subject_version,
        start, length, content_type, headers, available_at)`,
	oneArgs:  postgresOne,
	manyArgs: postgresMany,
}

func postgresOne(e *Event) []any {
	return []any{
		e.ID.String(), e.Topic, e.Key, orNull(e.Type),
		orNull(int64(e.SchemaVersion)), orNull(e.SubjectVersion),
		payloadArg(e), e.ContentType, orNull(headersJSON(e.Headers)), orNull(postgresTime(e)),
	}
}

func postgresMany(events []Event) []any {
	var id, topic, key, typ, schema, subject, start, length, contentType, headers, available array
	next := 1 // substr counts from 1
	for i := range events {
		e := &events[i]
		id.text(e.ID.String())
		topic.text(e.Topic)
		key.text(e.Key)
		typ.textOrNull(e.Type)
		schema.numberOrNull(int64(e.SchemaVersion))
		subject.numberOrNull(e.SubjectVersion)
		start.number(int64(next))
		if e.Payload == nil {
			length.null() // the slice of a NULL length is NULL: a tombstone
		} else {
			length.number(int64(len(e.Payload)))
		}
		next += len(e.Payload)
		contentType.text(e.ContentType)
		headers.textOrNull(headersJSON(e.Headers))
		available.textOrNull(postgresTime(e))
	}
	return []any{
		pack(events), id.literal(), topic.literal(), key.literal(), typ.literal(),
		schema.literal(), subject.literal(), start.literal(), length.literal(),
		contentType.literal(), headers.literal(), available.literal(),
	}
}

// postgresTime spells the time in UTC with its zone, which no session setting
// can reinterpret, or "" for none.
func postgresTime(e *Event) string {
	if e.AvailableAt.IsZero() {
		return ""
	}
	return e.AvailableAt.UTC().Format("2006-01-02T15:04:05.000000Z")
}

// array builds an array literal. Text is always quoted, so no element can be
// read as NULL or as syntax.
type array struct{ b strings.Builder }

func (a *array) next() {
	if a.b.Len() == 0 {
		a.b.WriteByte('{')
		return
	}
	a.b.WriteByte(',')
}

func (a *array) null() {
	a.next()
	a.b.WriteString("NULL")
}

func (a *array) number(n int64) {
	a.next()
	var digits [20]byte
	a.b.Write(strconv.AppendInt(digits[:0], n, 10))
}

func (a *array) numberOrNull(n int64) {
	if n == 0 {
		a.null()
		return
	}
	a.number(n)
}

func (a *array) text(s string) {
	a.next()
	a.b.WriteByte('"')
	for {
		i := strings.IndexAny(s, `"\`)
		if i < 0 {
			break
		}
		a.b.WriteString(s[:i])
		a.b.WriteByte('\\')
		a.b.WriteByte(s[i])
		s = s[i+1:]
	}
	a.b.WriteString(s)
	a.b.WriteByte('"')
}

func (a *array) textOrNull(s string) {
	if s == "" {
		a.null()
		return
	}
	a.text(s)
}

func (a *array) literal() string {
	if a.b.Len() == 0 {
		return "{}"
	}
	return a.b.String() + "}"
}
