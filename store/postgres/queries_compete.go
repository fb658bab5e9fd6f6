package postgres

// queryCompete claims due rows, each branch by its own index: an OR over their
// conditions would read and sort the whole backlog (S22). What a branch locked
// counts against the next one's limit, so the claim never has more than its limit
// (S14): in MATERIALIZED CTEs and LATERAL the locking part runs once under every
// plan, where "id IN (SELECT … FOR UPDATE SKIP LOCKED LIMIT n)" may run once per
// row and take the table.
//
// Fresh rows are taken per topic, each an equal share; rows that others hold are
// passed over.
//
// Index: outbox_retry, outbox_scheduled, outbox_hot. Locks: FOR UPDATE on the
// claimed rows, until the claim's transaction ends.
//
// $1 limit, $2 longest backoff in microseconds.
const queryCompete = `
WITH RECURSIVE retries AS MATERIALIZED (
	SELECT o.* FROM {{outbox}} o
	WHERE o.held IS NOT NULL AND o.retry_at <= statement_timestamp() AND o.held <> 'blocked'
	ORDER BY o.retry_at LIMIT $1::int FOR UPDATE SKIP LOCKED
),
scheduled AS MATERIALIZED (
	SELECT o.* FROM {{outbox}} o
	WHERE o.held IS NULL AND o.available_at > o.queued_at AND o.available_at <= statement_timestamp()
	ORDER BY o.available_at, o.id LIMIT greatest($1 - (SELECT count(*) FROM retries), 0) FOR UPDATE SKIP LOCKED
),
names(topic) AS (
	(SELECT topic FROM {{outbox}} WHERE /hot/ ORDER BY topic, id LIMIT 1)
	UNION ALL
	SELECT (SELECT o.topic FROM {{outbox}} o WHERE o.topic > n.topic AND /hot/ ORDER BY o.topic, o.id LIMIT 1)
	FROM names n WHERE n.topic IS NOT NULL
),
topics AS MATERIALIZED (SELECT topic FROM names WHERE topic IS NOT NULL ORDER BY random()),
room AS MATERIALIZED (
	SELECT greatest($1 - (SELECT count(*) FROM retries) - (SELECT count(*) FROM scheduled), 0) AS rows,
		(SELECT count(*) FROM topics) AS topics
),
fresh AS MATERIALIZED (
	SELECT r.* FROM topics t CROSS JOIN LATERAL (
		SELECT o.* FROM {{outbox}} o
		WHERE o.topic >= t.topic AND o.topic <= t.topic AND /hot/
		ORDER BY o.topic, o.id
		LIMIT (SELECT CASE WHEN rows = 0 THEN 0 ELSE greatest(rows / greatest(topics, 1), 1) END FROM room)
		FOR UPDATE SKIP LOCKED
	) r
	LIMIT (SELECT rows FROM room)
)
SELECT /columns/ FROM (
	SELECT * FROM retries UNION ALL SELECT * FROM scheduled UNION ALL SELECT * FROM fresh
) o ORDER BY o.id`
