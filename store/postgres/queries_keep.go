package postgres

// queryPromote gives scheduled rows that fell due their place. The ids are drawn
// in the order of due: the rows are locked first, all of them, and then updated in
// that order by a nested loop (settleSettings). Without SKIP LOCKED: a second
// promoter that passed over the first one's rows could give the later event of a
// key the lower id.
//
// Index: outbox_scheduled, outbox_pkey. Locks: FOR UPDATE on the promoted rows.
const queryPromote = `
WITH due AS MATERIALIZED (
	SELECT o.id FROM {{outbox}} o
	WHERE o.held IS NULL AND o.available_at > o.queued_at AND o.available_at <= statement_timestamp()
	ORDER BY o.available_at, o.id LIMIT $1::int FOR UPDATE
)
UPDATE {{outbox}} o SET id = DEFAULT, queued_at = greatest(clock_timestamp(), o.available_at)
FROM due WHERE o.id = due.id`

// queryRingState finds a part of the history whose newest row is older than the
// retention. Index: the parts' primary keys, backwards. Locks: ACCESS SHARE.
const queryRingState = `
SELECT n::int FROM generate_series(0, 7) n CROSS JOIN LATERAL (
	SELECT d.delivered_at FROM {{delivered}} d WHERE d.slot = n ORDER BY d.slot DESC, d.delivered_at DESC LIMIT 1
) newest
WHERE newest.delivered_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
ORDER BY newest.delivered_at LIMIT 1`

// queryRingLock locks one part, so that no settle fills it between the last look
// and the TRUNCATE. %s is the part.
// Locks: ACCESS EXCLUSIVE on the part, waited for 100 ms at most; a settle that
// comes behind the waiting lock goes on after that.
const queryRingLock = `LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE`

// queryRingDue looks at one part again, under the lock. %d is the slot.
const queryRingDue = `
SELECT 1 WHERE (
	SELECT d.delivered_at FROM {{delivered}} d WHERE d.slot = %d ORDER BY d.slot DESC, d.delivered_at DESC LIMIT 1
) < statement_timestamp() - $1::bigint * interval '1 microsecond'`

// queryRingTruncate empties the part that queryRingLock holds. %s is the part.
const queryRingTruncate = `TRUNCATE TABLE ONLY %s`

// queryRingSize estimates the rows of a part before it is emptied: counting them
// would read them all. %s is the part as a literal.
const queryRingSize = `SELECT pg_stat_get_live_tuples(to_regclass(%s)::oid)`

// queryPruneDead removes the oldest dead letters past their retention, a batch
// at a time. Index: outbox_dead_died. Locks: ROW EXCLUSIVE on the dead letters.
const queryPruneDead = `
DELETE FROM {{dead}} d USING (
	SELECT id, event_id, generation FROM {{dead}}
	WHERE died_at < statement_timestamp() - $1::bigint * interval '1 microsecond'
	ORDER BY died_at, id LIMIT $2::int FOR UPDATE SKIP LOCKED
) old
WHERE d.id = old.id AND d.event_id = old.event_id AND d.generation = old.generation`

// queryBeats lists the lease rows for housekeeping.
const queryBeats = `SELECT instance, epoch, beat FROM {{relay}}`

// queryOrphanLanes frees lanes whose relay has no lease row, which only a hand
// that deletes lease rows leaves behind. The rows are locked by the statement
// before it, so that this one's snapshot sees every lease they rest on.
const queryOrphanLanes = `
UPDATE {{lane}} l SET owner = NULL, epoch = l.epoch + 1
WHERE l.owner IS NOT NULL AND NOT EXISTS (SELECT FROM {{relay}} r WHERE r.instance = l.owner)`

// queryAllLanes locks all lanes in order, for queryOrphanLanes.
const queryAllLanes = `SELECT lane FROM {{lane}} WHERE owner IS NOT NULL ORDER BY lane FOR UPDATE`
