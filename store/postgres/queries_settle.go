package postgres

// eventColumns are the outbox's columns that the history and the dead letters
// have too.
const eventColumns = `id, event_id, generation, topic, key, type, schema_version, subject_version,
	/payload/, created_at, queued_at, available_at, held, retry_at, attempts, last_error`

// historyPayload is the part of the event that history: head leaves out.
func historyPayload(h History) string {
	if h == HistoryHead {
		return "NULL::bytea, content_type, NULL::jsonb"
	}
	return "payload, content_type, headers"
}

// queryKeep settles delivered rows by moving them into the history. One
// statement, so that a row is in exactly one of the two under any crash.
//
// The slot is the time since 1970 in units of a sixth of the retention, modulo
// 8: six slots hold the retention, one is being filled and one is being emptied.
//
// Index: outbox_pkey, one look-up per id (settleSettings). Locks: ROW EXCLUSIVE on
// outbox and on the one part of the history that is being filled.
//
// $1 ids ascending, $2 event ids, $3 generations, $4 width of a slot in seconds.
const queryKeep = `
WITH gone AS (
	DELETE FROM {{outbox}} o USING unnest($1::bigint[], $2::uuid[], $3::int[]) AS s(id, event_id, generation)
	WHERE o.id = s.id AND o.event_id = s.event_id AND o.generation = s.generation
	RETURNING o.*
)
INSERT INTO {{delivered}} (slot, delivered_at, id, event_id, generation, topic, key, type, schema_version, subject_version,
	payload, content_type, headers, created_at, queued_at, available_at, held, retry_at, attempts, last_error)
SELECT (floor(extract(epoch FROM statement_timestamp()) / $4::float8)::bigint % 8)::smallint, statement_timestamp(), ` + eventColumns + `
FROM gone`

// queryDrop settles delivered rows without a history.
//
// Index: outbox_pkey, one look-up per id. Locks: ROW EXCLUSIVE on outbox.
const queryDrop = `
DELETE FROM {{outbox}} o USING unnest($1::bigint[], $2::uuid[], $3::int[]) AS s(id, event_id, generation)
WHERE o.id = s.id AND o.event_id = s.event_id AND o.generation = s.generation`

// queryMark sets the relay's own columns. Marking a held row "behind" changes
// nothing at all: the late mark of another relay must not free a blocked row.
//
// Index: outbox_pkey, one look-up per id. Locks: ROW EXCLUSIVE on outbox.
//
// $4 held (the empty text leaves held and retry_at), $5 microseconds until the retry,
// $6 attempts, $7 keep attempts and error, $8 error.
const queryMark = `
UPDATE {{outbox}} o SET
	held = CASE WHEN s.held = '' OR (s.held = 'behind' AND o.held IS NOT NULL) THEN o.held ELSE s.held END,
	retry_at = CASE WHEN s.held = 'retry' THEN clock_timestamp() + s.after * interval '1 microsecond'
		WHEN s.held = 'blocked' THEN NULL ELSE o.retry_at END,
	attempts = CASE WHEN s.keep OR (s.held = 'behind' AND o.held IS NOT NULL) THEN o.attempts ELSE s.attempts END,
	last_error = CASE WHEN s.keep OR (s.held = 'behind' AND o.held IS NOT NULL) THEN o.last_error ELSE nullif(s.error, '') END
FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[], $5::bigint[], $6::int[], $7::bool[], $8::text[])
	AS s(id, event_id, generation, held, after, attempts, keep, error)
WHERE o.id = s.id AND o.event_id = s.event_id AND o.generation = s.generation`

// queryBury moves rows to the dead letters, under the caller's lease: the lease
// row is locked against its end (not against its renewal) until the commit. The
// empty instance is a caller without a lease.
//
// Index: outbox_pkey, one look-up per id; the lease by its key. Locks: ROW
// EXCLUSIVE on outbox and the dead letters, FOR KEY SHARE on one lease row.
//
// $4 attempts, $5 classes, $6 causes, $7 instance, $8 epoch.
const queryBury = `
WITH fence AS MATERIALIZED (
	SELECT 1 FROM {{relay}} WHERE instance = $7::text AND epoch = $8::bigint FOR KEY SHARE
),
gone AS (
	DELETE FROM {{outbox}} o USING unnest($1::bigint[], $2::uuid[], $3::int[], $4::int[], $5::text[], $6::text[])
		AS s(id, event_id, generation, attempts, class, cause)
	WHERE o.id = s.id AND o.event_id = s.event_id AND o.generation = s.generation
		AND ($7 = '' OR EXISTS (SELECT FROM fence))
	RETURNING o.id, o.event_id, o.generation, o.topic, o.key, o.type, o.schema_version, o.subject_version,
		o.payload, o.content_type, o.headers, o.created_at, o.queued_at, o.available_at, o.held, o.retry_at, s.attempts, s.cause, s.class
)
INSERT INTO {{dead}} (id, event_id, generation, topic, key, type, schema_version, subject_version,
	payload, content_type, headers, created_at, queued_at, available_at, held, retry_at, attempts, last_error, cause_class, cause)
SELECT id, event_id, generation, topic, key, type, schema_version, subject_version,
	payload, content_type, headers, created_at, queued_at, available_at, held, retry_at, attempts, cause, class, cause
FROM gone`
