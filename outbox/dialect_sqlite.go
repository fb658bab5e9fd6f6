package outbox

import (
	"bytes"
	"encoding/json"
)

// SQLite takes many rows as one JSON array: 5,000 rows of VALUES would have
// 50,000 parameters, and it allows 32,766. json_each reads the array front to
// back, so the ids follow the order of the events. An empty payload is spelled
// out, because substr makes NULL, a tombstone, of an empty blob.
var sqliteInserts = inserts{
	one: `INSERT INTO {{outbox}}
    (event_id, topic, key, type, schema_version, subject_version, payload, content_type, headers, available_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
	many: `INSERT INTO {{outbox}}
    (event_id, topic, key, type, schema_version, subject_version, payload, content_type, headers, available_at)
SELECT json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]'), json_extract(e.value, '$[2]'),
       json_extract(e.value, '$[3]'), json_extract(e.value, '$[4]'), json_extract(e.value, '$[5]'),
       CASE json_extract(e.value, '$[7]') WHEN 0 THEN x''
            ELSE substr(p.payload, json_extract(e.value, '$[6]'), json_extract(e.value, '$[7]')) END,
       json_extract(e.value, '$[8]'), json_extract(e.value, '$[9]'), json_extract(e.value, '$[10]')
FROM (SELECT ? AS payload) AS p, json_each(?) AS e`,
	oneArgs:  sqliteOne,
	manyArgs: sqliteMany,
}

func sqliteOne(e *Event) []any {
	return []any{
		e.ID.String(), e.Topic, e.Key, orNull(e.Type),
		orNull(int64(e.SchemaVersion)), orNull(e.SubjectVersion),
		payloadArg(e), e.ContentType, orNull(headersJSON(e.Headers)), sqliteTime(e),
	}
}

func sqliteMany(events []Event) []any {
	rows := make([][11]any, len(events))
	next := 1 // substr counts from 1
	for i := range events {
		e := &events[i]
		var length any // the slice of a NULL length is NULL: a tombstone
		if e.Payload != nil {
			length = len(e.Payload)
		}
		rows[i] = [...]any{
			e.ID.String(), e.Topic, e.Key, orNull(e.Type),
			orNull(int64(e.SchemaVersion)), orNull(e.SubjectVersion), next, length,
			e.ContentType, orNull(headersJSON(e.Headers)), sqliteTime(e),
		}
		next += len(e.Payload)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(rows) // strings and numbers cannot fail
	return []any{pack(events), b.String()}
}

// sqliteTime is milliseconds since 1970, as every time in the table.
func sqliteTime(e *Event) any {
	if e.AvailableAt.IsZero() {
		return nil
	}
	return e.AvailableAt.UnixMilli()
}
