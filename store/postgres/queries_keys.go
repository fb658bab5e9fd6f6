package postgres

// queryReadKeys reads closed keys, all in the snapshot of this one statement.
//
// A key's held rows come from outbox_held, one descent per key. The lowest row of
// the key that is not held has no index of its own; a look-up per key would walk
// outbox_hot once per key. Instead each topic's hot rows up to the highest held id
// of the batch are read once and hash-joined with the keys (readKeysSettings):
// those rows are the front of the queue, mostly what is in flight.
//
// Rows end before one that waits by itself behind the head (a transaction with
// lower ids committed after that row had failed), and when 16 MiB are full.
//
// Index: outbox_held, outbox_hot, outbox_retry for the empty key. Locks: ACCESS
// SHARE.
//
// $1 topics, $2 keys, $3 limit, $4 longest backoff in microseconds, $5 bytes.
const queryReadKeys = `
WITH keys AS MATERIALIZED (
	SELECT * FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k(topic, key, place)
),
held AS MATERIALIZED (
	SELECT k.place, r.*, row_number() OVER (PARTITION BY k.place ORDER BY r.id) AS n
	FROM keys k CROSS JOIN LATERAL (
		SELECT /columns/, o.held,
			CASE WHEN o.held = 'blocked' THEN true
				ELSE coalesce(o.retry_at > statement_timestamp()
					AND o.retry_at <= statement_timestamp() + $4::bigint * interval '1 microsecond', false) END AS waits, o.retry_at
		FROM {{outbox}} o
		WHERE o.topic = k.topic AND o.key = k.key AND o.held IS NOT NULL
		ORDER BY o.topic, o.key, o.id LIMIT $3::int + 1
	) r
	WHERE k.key <> ''
),
ranges AS MATERIALIZED (
	SELECT topic, max(id) AS high FROM held GROUP BY topic
),
front AS MATERIALIZED (
	SELECT h.topic, h.key, min(h.id) AS id
	FROM (
		SELECT o.topic, o.key, o.id FROM ranges r CROSS JOIN LATERAL (
			SELECT o.topic, o.key, o.id FROM {{outbox}} o
			WHERE o.topic >= r.topic AND (o.topic, o.id) < (r.topic, r.high) AND /hot/
			OFFSET 0
		) o
	) h JOIN keys k ON k.topic = h.topic AND k.key = h.key
	GROUP BY h.topic, h.key
),
stops AS MATERIALIZED (
	SELECT h.place, min(h.id) FILTER (WHERE h.waits) AS waiting, min(f.id) AS front
	FROM held h LEFT JOIN front f ON f.topic = h.topic AND f.key = h.key
	GROUP BY h.place
),
loose AS MATERIALIZED (
	SELECT k.place, r.* FROM keys k CROSS JOIN LATERAL (
		(SELECT /columns/ FROM {{outbox}} o
		WHERE o.held IS NOT NULL AND o.held <> 'blocked' AND o.topic = k.topic AND o.key = ''
			AND o.retry_at <= statement_timestamp()
		ORDER BY o.retry_at LIMIT $3 + 1)
		UNION ALL
		(SELECT /columns/ FROM {{outbox}} o
		WHERE o.held IS NOT NULL AND o.held <> 'blocked' AND o.topic = k.topic AND o.key = ''
			AND o.retry_at > statement_timestamp() + $4 * interval '1 microsecond'
		ORDER BY o.retry_at DESC LIMIT $3 + 1)
	) r
	WHERE k.key = ''
),
rows AS (
	SELECT place, id, event_id, generation, topic, key, type, schema_version, subject_version,
		payload, content_type, headers, created_at, queued_at, available_at, attempts, last_error
	FROM held h JOIN stops s USING (place)
	WHERE h.n <= $3 AND h.id < coalesce(s.waiting, 9223372036854775807) AND h.id < coalesce(s.front, 9223372036854775807)
	UNION ALL
	SELECT place, id, event_id, generation, topic, key, type, schema_version, subject_version,
		payload, content_type, headers, created_at, queued_at, available_at, attempts, last_error
	FROM (SELECT *, row_number() OVER (PARTITION BY place ORDER BY id) AS n FROM loose) l WHERE n <= $3
),
sized AS (
	SELECT *, sum(coalesce(octet_length(payload), 0)::bigint) OVER w AS total, row_number() OVER w AS nth
	FROM rows WINDOW w AS (ORDER BY place, id ROWS UNBOUNDED PRECEDING)
)
SELECT 1, place::int, NULL::int, NULL::bool, NULL::bool, NULL::bigint, NULL::bool,
	id, event_id, generation, topic, key, type, schema_version, subject_version,
	payload, content_type, headers, created_at, queued_at, available_at, attempts, last_error
FROM sized WHERE total <= $5::bigint OR nth = 1
UNION ALL
SELECT 2, k.place::int,
	(SELECT count(*) FROM rows r WHERE r.place = k.place)::int,
	NOT EXISTS (SELECT FROM {{outbox}} o WHERE o.topic = k.topic AND o.key = k.key AND o.held IS NOT NULL),
	CASE WHEN k.key <> '' THEN (SELECT h.held = 'blocked' FROM held h WHERE h.place = k.place AND h.n = 1)
		ELSE NOT EXISTS (SELECT FROM {{outbox}} o WHERE o.topic = k.topic AND o.key = '' AND o.held IS NOT NULL AND o.held <> 'blocked') END,
	ceil(extract(epoch FROM CASE WHEN k.key <> ''
		THEN (SELECT h.retry_at FROM held h WHERE h.place = k.place AND h.n = 1 AND h.waits)
		ELSE (SELECT o.retry_at FROM {{outbox}} o WHERE o.held IS NOT NULL AND o.held <> 'blocked' AND o.topic = k.topic AND o.key = ''
			AND o.retry_at > statement_timestamp() ORDER BY o.retry_at LIMIT 1)
		END - statement_timestamp()) * 1000000)::bigint,
	CASE WHEN k.key <> '' THEN coalesce((
		SELECT bool_or(h.n > $3 OR h.id > s.front) FROM held h JOIN stops s USING (place)
		WHERE h.place = k.place AND h.id < coalesce(s.waiting, 9223372036854775807)), false)
		ELSE (SELECT count(*) > $3 FROM loose l WHERE l.place = k.place) END,
	NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM keys k`

// queryHeldKeys pages through the closed keys whose head may be sent, by a loose
// scan: one descent of outbox_held per key gives the next key's lowest row.
//
// Index: outbox_held, outbox_retry for the empty key. Locks: ACCESS SHARE.
//
// $1 topic and $2 key to start after, $3 limit, $4 longest backoff in
// microseconds.
const queryHeldKeys = `
WITH RECURSIVE heads(topic, key, held, retry_at) AS (
	SELECT $1::text, $2::text, NULL::text, NULL::timestamptz
	UNION ALL
	SELECT n.topic, n.key, n.held, n.retry_at FROM heads h CROSS JOIN LATERAL (
		SELECT o.topic, o.key, o.held, o.retry_at FROM {{outbox}} o
		WHERE (o.topic, o.key) > (h.topic, h.key) AND o.held IS NOT NULL
		ORDER BY o.topic, o.key, o.id LIMIT 1
	) n
)
SELECT topic, key FROM heads
WHERE held IS NOT NULL AND CASE
	WHEN key = '' THEN EXISTS (SELECT FROM {{outbox}} o WHERE o.held IS NOT NULL AND o.held <> 'blocked'
		AND o.topic = heads.topic AND o.key = '' AND (o.retry_at <= statement_timestamp()
			OR o.retry_at > statement_timestamp() + $4 * interval '1 microsecond'))
	WHEN held = 'blocked' THEN false
	ELSE coalesce(retry_at <= statement_timestamp()
		OR retry_at > statement_timestamp() + $4::bigint * interval '1 microsecond', true) END
LIMIT $3::int + 1`
