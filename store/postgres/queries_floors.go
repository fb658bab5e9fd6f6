package postgres

// queryWriters lists the transactions that may have drawn ids of the outbox and
// not ended: those that hold a lock for writing it. Those of this relay are among
// them and end soon. Locks: none on tables; it looks at the lock table.
const queryWriters = `
SELECT DISTINCT l.virtualtransaction FROM pg_locks l
WHERE l.locktype = 'relation' AND l.relation = /table/::regclass
	AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
	AND l.mode IN ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
	AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()`

// queryFloors finds the lowest hot row of each topic. It walks over the dead rows
// once, so that the fetches need not. $1 is the id up to which all is decided.
// Index: outbox_hot, one descent per topic. Locks: ACCESS SHARE.
const queryFloors = `
WITH RECURSIVE lowest(topic, id) AS (
	(SELECT o.topic, o.id FROM {{outbox}} o WHERE /hot/ ORDER BY o.topic, o.id LIMIT 1)
	UNION ALL
	SELECT n.topic, n.id FROM lowest l CROSS JOIN LATERAL (
		SELECT o.topic, o.id FROM {{outbox}} o WHERE o.topic > l.topic AND /hot/ ORDER BY o.topic, o.id LIMIT 1
	) n
)
SELECT topic, least(id, $1::bigint + 1) FROM lowest`
