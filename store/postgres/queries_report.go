package postgres

// queryReport counts per topic, at most $1 rows per topic and state; a count that
// reached it says so.
//
// Index: outbox_hot, outbox_held, outbox_scheduled and outbox_dead_died for the
// counts, loose scans of the first two for the topics. Locks: ACCESS SHARE.
const queryReport = `
WITH RECURSIVE hot(topic) AS (
	(SELECT topic FROM {{outbox}} WHERE /hot/ ORDER BY topic, id LIMIT 1)
	UNION ALL
	SELECT (SELECT o.topic FROM {{outbox}} o WHERE o.topic > n.topic AND /hot/ ORDER BY o.topic, o.id LIMIT 1)
	FROM hot n WHERE n.topic IS NOT NULL
),
closed(topic) AS (
	(SELECT topic FROM {{outbox}} WHERE held IS NOT NULL ORDER BY topic, key, id LIMIT 1)
	UNION ALL
	SELECT (SELECT o.topic FROM {{outbox}} o WHERE o.topic > n.topic AND o.held IS NOT NULL ORDER BY o.topic, o.key, o.id LIMIT 1)
	FROM closed n WHERE n.topic IS NOT NULL
),
states AS (
	SELECT t.topic, 1 AS kind, c.* FROM hot t CROSS JOIN LATERAL (
		SELECT count(*) AS n, min(at) AS oldest, count(*) >= $1::int AS cut, 0::bigint AS blocked FROM (
			SELECT greatest(o.queued_at, o.available_at) AS at FROM {{outbox}} o
			WHERE o.topic >= t.topic AND o.topic <= t.topic AND /hot/ ORDER BY o.topic, o.id LIMIT $1
		) s
	) c WHERE t.topic IS NOT NULL
	UNION ALL
	SELECT t.topic, 2, c.* FROM closed t CROSS JOIN LATERAL (
		SELECT count(*), min(at), count(*) >= $1, count(DISTINCT key) FILTER (WHERE held = 'blocked') FROM (
			SELECT greatest(o.queued_at, o.available_at) AS at, o.key, o.held FROM {{outbox}} o
			WHERE o.topic >= t.topic AND o.topic <= t.topic AND o.held IS NOT NULL ORDER BY o.topic, o.key, o.id LIMIT $1
		) s
	) c WHERE t.topic IS NOT NULL
	UNION ALL
	SELECT topic, 3, count(*), min(at), (SELECT count(*) >= $1 FROM waiting), 0 FROM waiting WHERE at > statement_timestamp() GROUP BY topic
	UNION ALL
	SELECT topic, 1, count(*), min(at), (SELECT count(*) >= $1 FROM waiting), 0 FROM waiting WHERE at <= statement_timestamp() GROUP BY topic
	UNION ALL
	SELECT topic, 4, count(*), NULL, (SELECT count(*) >= $1 FROM buried), 0 FROM buried GROUP BY topic
),
waiting AS MATERIALIZED (
	SELECT o.topic, o.available_at AS at FROM {{outbox}} o
	WHERE o.held IS NULL AND o.available_at > o.queued_at ORDER BY o.available_at, o.id LIMIT $1
),
buried AS MATERIALIZED (
	SELECT topic FROM {{dead}} ORDER BY died_at, id LIMIT $1
)
SELECT topic,
	coalesce(sum(n) FILTER (WHERE kind IN (1, 2)), 0)::bigint,
	greatest(extract(epoch FROM statement_timestamp() - min(oldest) FILTER (WHERE kind IN (1, 2))) * 1000000, 0)::bigint,
	coalesce(sum(n) FILTER (WHERE kind = 2), 0)::bigint,
	coalesce(sum(n) FILTER (WHERE kind = 3), 0)::bigint,
	coalesce(sum(n) FILTER (WHERE kind = 4), 0)::bigint,
	coalesce(sum(blocked), 0)::bigint,
	bool_or(cut)
FROM states GROUP BY topic ORDER BY topic`
