package postgres

// The hot rows of a topic, in order: those of the index outbox_hot.
//
// The topic is bounded from both sides instead of being compared for equality:
// ORDER BY topic, id is then served by outbox_hot alone. With "topic = $1 ORDER
// BY id" the planner may walk the primary key and filter, which reads a million
// rows of other topics to find ten (S24).
const hotRows = `held IS NULL AND (available_at IS NULL OR available_at <= queued_at)`

// rowColumns are the columns of an event in the order that decoder.row reads.
const rowColumns = `o.id, o.event_id, o.generation, o.topic, o.key, o.type, o.schema_version, o.subject_version,
	o.payload, o.content_type, o.headers, o.created_at, o.queued_at, o.available_at, o.attempts, o.last_error`

// queryFetch is the one statement of a fetch, so that all of it comes from one
// snapshot. Placeholders between slashes are filled by fetchSQL.
//
// It reads the outbox in two passes. The first gives every topic an equal share
// of the rows; the second gives what the small topics left to those that could
// use more. So one deep topic among a hundred gets nearly all of a batch, and none
// waits for another.
//
// Bytes are counted over what a pass read: the length of a payload is in its TOAST
// pointer, so four thousand rows of 1 MiB are neither read nor sent. Nearly always
// all of it fits, and then nothing is sorted or numbered: the window functions
// cost more than reading the rows does. Only where it does not fit, rows are cut
// in the order of their rank within their topic, so that each topic has its turn.
//
// The rows of a topic come in index order out of nested loops, and are cut at the
// end only. That is what makes them the lowest; the decoder checks the order.
//
// Index: outbox_hot for topics (loose scan, one descent per topic) and rows;
// outbox_pkey above $9 for topics that came since; outbox_held for closed keys,
// one descent per row if anything is held, as a scalar sub-select: written as a
// join, two of them side by side took 18 s; outbox_retry and outbox_scheduled for
// what falls due. The rows in flight ($1) are excluded by NOT IN (SELECT unnest),
// a hashed subplan under every plan: NOT EXISTS may become a nested loop with LIMIT
// above it, and <> ALL compares row by row once the plan is generic or the server
// is 14.
//
// Locks: ACCESS SHARE. setval writes the doorbell's sequence and nothing else.
//
// $1 ids in flight, $2 rows, $3 bytes, $4 rows per topic, $5 arm for so many
// milliseconds (0 not at all, -1 disarm), $6 lanes as a bit set, $7 topics,
// $8 their floors, $9 highest id seen, $10 topics to leave out, $11 the longest
// backoff in microseconds.
const queryFetch = `
WITH RECURSIVE /names/,
topics AS MATERIALIZED (
	SELECT topic, floor FROM names
	WHERE topic IS NOT NULL AND topic NOT IN (SELECT unnest($10::text[]))
	ORDER BY random()
),
quota AS MATERIALIZED (
	SELECT count(*) AS topics, least($4::bigint, greatest(1, $2::bigint / greatest(count(*), 1))) AS rows FROM topics
),
one AS MATERIALIZED (
	SELECT c.*, /size/ AS size FROM (
		SELECT r.* FROM topics t CROSS JOIN LATERAL (
			SELECT /columns/, /closed/ AS closed FROM {{outbox}} o
			WHERE (o.topic, o.id) >= (t.topic, t.floor) AND o.topic <= t.topic AND /hot/ /lanes/
				AND o.id NOT IN (SELECT unnest($1::bigint[]))
			ORDER BY o.topic, o.id LIMIT (SELECT rows FROM quota)
		) r LIMIT $2
	) c
),
read AS MATERIALIZED (SELECT count(*) AS rows, coalesce(sum(size), 0) AS bytes FROM one),
deep AS MATERIALIZED (
	SELECT topic, max(id) AS last FROM one WHERE (SELECT topics FROM quota) > 1
	GROUP BY topic HAVING count(*) >= (SELECT rows FROM quota)
),
again AS MATERIALIZED (
	SELECT CASE WHEN (SELECT bytes FROM read) >= $3::bigint THEN 0
		ELSE least($4 - (SELECT rows FROM quota), greatest($2 - (SELECT rows FROM read), 0) / greatest(count(*), 1)) END AS rows
	FROM deep
),
two AS MATERIALIZED (
	SELECT c.*, /size/ AS size FROM (
		SELECT r.* FROM deep t CROSS JOIN LATERAL (
			SELECT /columns/, /closed/ AS closed FROM {{outbox}} o
			WHERE (o.topic, o.id) > (t.topic, t.last) AND o.topic <= t.topic AND /hot/ /lanes/
				AND o.id NOT IN (SELECT unnest($1::bigint[]))
			ORDER BY o.topic, o.id LIMIT (SELECT rows FROM again)
		) r
	) c
),
reread AS MATERIALIZED (SELECT count(*) AS rows, coalesce(sum(size), 0) AS bytes FROM two)
SELECT /sent/ FROM one WHERE (SELECT bytes FROM read) <= $3
UNION ALL
SELECT /sent/ FROM (
	SELECT *, sum(size) OVER w AS total, row_number() OVER w AS place
	FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY id) AS rank FROM one WHERE (SELECT bytes FROM read) > $3) r
	WINDOW w AS (ORDER BY rank, topic ROWS UNBOUNDED PRECEDING)
) c WHERE total <= $3 OR place = 1
UNION ALL
SELECT /sent/ FROM two WHERE (SELECT bytes FROM reread) <= $3 - (SELECT bytes FROM read)
UNION ALL
SELECT /sent/ FROM (
	SELECT *, sum(size) OVER (ORDER BY rank, topic ROWS UNBOUNDED PRECEDING) AS total
	FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY id) AS rank FROM two
		WHERE (SELECT bytes FROM reread) > $3 - (SELECT bytes FROM read)) r
) c WHERE total <= $3 - (SELECT bytes FROM read)
UNION ALL
SELECT 3, (SELECT rows FROM read) + (SELECT rows FROM reread), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
	clock_timestamp(), NULL, NULL, NULL, /status/`

// queryPeek is a fetch of rows alone, for when rows come every moment: no share
// between topics, nothing about what waits or is scheduled. It costs the
// server about half of queryFetch for a row or two. If it is full, a whole fetch follows at once.
//
// Index: outbox_hot; outbox_held for closed keys. Locks: ACCESS SHARE.
//
// Parameters as queryFetch.
const queryPeek = `
WITH RECURSIVE /names/,
one AS MATERIALIZED (
	SELECT c.*, /size/ AS size FROM (
		SELECT r.* FROM names t CROSS JOIN LATERAL (
			SELECT /columns/, /closed/ AS closed FROM {{outbox}} o
			WHERE o.topic >= t.topic AND o.topic <= t.topic AND /hot/ /lanes/
				AND o.id NOT IN (SELECT unnest($1::bigint[]))
			ORDER BY o.topic, o.id LIMIT $2
		) r
		WHERE t.topic IS NOT NULL AND t.topic NOT IN (SELECT unnest($10::text[])) LIMIT $2
	) c
)
SELECT /sent/ FROM (
	SELECT *, sum(size) OVER w AS total, row_number() OVER w AS place FROM one WINDOW w AS (ROWS UNBOUNDED PRECEDING)
) c WHERE total <= $3 OR place = 1
UNION ALL
SELECT 3, (SELECT count(*) FROM one), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
	clock_timestamp(), NULL, NULL, NULL, json_build_object(
		'primary', NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off',
		'cut', (SELECT count(*) FROM one) >= $2,
		'paused', /paused/,
		'armed', CASE WHEN $5::bigint < 0 THEN setval(/bell/::regclass, 0) <> 0 END)::text`

// fetchSent is a row as it is sent: of a row of a closed key only what a mark needs.
const fetchSent = `CASE WHEN closed THEN 2 ELSE 1 END, id, event_id, generation, topic, key, type, schema_version, subject_version,
	CASE WHEN NOT closed THEN payload END, content_type, CASE WHEN NOT closed THEN headers END,
	created_at, queued_at, available_at, attempts, last_error`

// namesAll finds the topics by a loose index scan of outbox_hot.
const namesAll = `names(topic, floor) AS (
	(SELECT topic, 0::bigint FROM {{outbox}} o WHERE /hot/ ORDER BY topic, id LIMIT 1)
	UNION ALL
	SELECT (SELECT o.topic FROM {{outbox}} o WHERE o.topic > n.topic AND /hot/ ORDER BY o.topic, o.id LIMIT 1), 0
	FROM names n WHERE n.topic IS NOT NULL
)`

// namesKnown takes the topics from the caller, each with the lowest id worth
// scanning, and adds the topics of the next few hundred rows above the highest
// id seen. Under a held snapshot the dead rows below the floors are not walked.
const namesKnown = `names(topic, floor) AS (
	SELECT * FROM unnest($7::text[], $8::bigint[]) AS known(topic, floor)
	UNION ALL
	SELECT DISTINCT fresh.topic, $9::bigint FROM (
		SELECT topic FROM {{outbox}} o WHERE o.id > $9 ORDER BY o.id LIMIT 500
	) fresh WHERE fresh.topic NOT IN (SELECT unnest($7::text[]))
)`

// namesGiven takes the topics from the caller and no other.
const namesGiven = `names(topic, floor) AS (
	SELECT * FROM unnest($7::text[], $8::bigint[]) AS given(topic, floor)
)`

// closedKey tells whether a row's key has a held row. While nothing at all is held,
// which is nearly always, no look-up is made.
const closedKey = `CASE WHEN o.key = '' OR NOT (SELECT EXISTS (SELECT FROM {{outbox}} h WHERE h.held IS NOT NULL)) THEN false
	ELSE coalesce((SELECT true FROM {{outbox}} h WHERE h.topic = o.topic AND h.key = o.key AND h.held IS NOT NULL LIMIT 1), false) END`

// rowSize is what a row costs to send. A large headers column is measured as it
// will be sent; octet_length of a payload does not read it.
const rowSize = `CASE WHEN c.closed THEN 0 ELSE 200 + coalesce(octet_length(c.payload), 0) + octet_length(c.key)
	+ CASE WHEN pg_column_size(c.headers) > 1000 THEN octet_length(c.headers::text) ELSE coalesce(pg_column_size(c.headers), 0) END END`

// inLanes tests the lane, the first byte of a SHA-256, against the bit set.
const inLanes = `AND get_bit($6::bytea, get_byte(sha256(
	CASE WHEN o.key = '' THEN uuid_send(o.event_id) ELSE convert_to(o.key, 'UTF8') END), 0)) = 1`

// fetchPaused lists what operators paused.
const fetchPaused = `(SELECT json_agg(json_build_object('kind', c.kind, 'name', c.name, 'by', c.by, 'reason', c.reason,
		'since', (extract(epoch FROM c.since) * 1000000)::bigint)) FROM {{control}} c)`

// fetchStatus is the answer's last row: one JSON object.
//
// Due keys come from a bounded number of rows: behind more due rows than that,
// of topics left out or of other lanes, HeldKeys finds the rest.
const fetchStatus = `json_build_object(
	'server', /identity/,
	'primary', NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off',
	'cut', CASE WHEN (SELECT topics FROM quota) <= 1 THEN (SELECT rows FROM read) >= (SELECT rows FROM quota)
		ELSE (SELECT rows FROM read) >= $2 OR (SELECT coalesce(bool_or(coalesce(n, 0) >= (SELECT rows FROM again)), false)
			FROM deep LEFT JOIN (SELECT topic, count(*) AS n FROM two GROUP BY topic) g USING (topic)) END,
	'due', (SELECT json_agg(json_build_array(topic, key)) FROM (
		SELECT topic, key FROM (
			(SELECT o.topic, o.key, o.id, o.event_id, o.retry_at FROM {{outbox}} o
			WHERE o.held IS NOT NULL AND o.retry_at <= statement_timestamp() ORDER BY o.retry_at LIMIT 20000)
			UNION ALL
			(SELECT o.topic, o.key, o.id, o.event_id, o.retry_at FROM {{outbox}} o
			WHERE o.held IS NOT NULL AND o.retry_at > statement_timestamp() + $11::bigint * interval '1 microsecond'
			ORDER BY o.retry_at DESC LIMIT 100)
		) o
		WHERE o.topic NOT IN (SELECT unnest($10::text[])) /only/ /lanes/
			AND (o.key = '' OR o.id = (
				SELECT h.id FROM {{outbox}} h WHERE h.topic = o.topic AND h.key = o.key AND h.held IS NOT NULL
				ORDER BY h.topic, h.key, h.id LIMIT 1))
		GROUP BY topic, key ORDER BY min(retry_at) LIMIT 500
	) d),
	'scheduled', EXISTS (SELECT FROM {{outbox}} o WHERE o.held IS NULL AND o.available_at > o.queued_at
		AND o.available_at <= statement_timestamp()),
	'next', (SELECT ceil(extract(epoch FROM least(
		(SELECT o.retry_at FROM {{outbox}} o WHERE o.held IS NOT NULL AND o.retry_at > statement_timestamp()
			AND o.retry_at <= statement_timestamp() + $11::bigint * interval '1 microsecond' ORDER BY o.retry_at LIMIT 1),
		(SELECT o.available_at FROM {{outbox}} o WHERE o.held IS NULL AND o.available_at > o.queued_at
			AND o.available_at > statement_timestamp() AND o.available_at < 'infinity' ORDER BY o.available_at LIMIT 1)
		) - statement_timestamp()) * 1000000)::bigint),
	'paused', /paused/,
	'armed', CASE
		WHEN $5::bigint < 0 THEN setval(/bell/::regclass, 0) <> 0
		WHEN $5 > 0 AND NOT EXISTS (SELECT FROM one) AND pg_notification_queue_usage() <= 0.1
		THEN setval(/bell/::regclass, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $5) > 0 END
	)::text`
