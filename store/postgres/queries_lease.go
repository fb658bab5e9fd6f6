package postgres

// Leases. What must be seen after a lock was waited for stands in a statement of
// its own behind the one that waits: in READ COMMITTED each statement has a new
// snapshot, so it sees what the lock's former holder committed.
//
// Order of locks: lease rows by instance, then lane rows by lane. Two relays that
// take each other for dead would wait for each other otherwise.

// queryLockLanes serialises what must look at all relays at once. Lane 0 is the
// mutex: an advisory lock would be lost or kept by a pooler.
// Locks: FOR UPDATE on lane 0.
const queryLockLanes = `SELECT lane FROM {{lane}} WHERE lane = 0 FOR UPDATE`

// queryRivals are the other relays that use another claim mode.
// Index: none, the table has one row per relay.
const queryRivals = `SELECT instance, epoch, beat, claim FROM {{relay}} WHERE instance <> $1::text AND claim <> $2::text`

// queryJoin writes the lease row, unless a rival is there. A relay that joins
// again under its name has a new epoch; evictLanes freed its lanes before. The
// epoch begins at the clock, so that an epoch of a row that was removed does not
// come back. Locks: one lease row.
const queryJoin = `
INSERT INTO {{relay}} AS r (instance, epoch, beat, host, version, claim)
SELECT $1::text, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 0, $2::text, $3::text, $4::text
WHERE NOT EXISTS (SELECT FROM {{relay}} WHERE instance <> $1 AND claim <> $4)
ON CONFLICT (instance) DO UPDATE SET epoch = greatest(r.epoch + 1, EXCLUDED.epoch), beat = 0, host = $2, version = $3, claim = $4, unreachable = ''
RETURNING epoch`

// queryRenew raises the beat and says which destinations are unreachable.
// Index: the lease's key. Locks: one lease row.
const queryRenew = `
UPDATE {{relay}} SET beat = beat + 1, unreachable = $3::text WHERE instance = $1::text AND epoch = $2::bigint`

// queryMembers lists the relays with their lanes, the caller first.
// Index: none, 256 lanes and one row per relay.
const queryMembers = `
SELECT r.instance, r.epoch, r.beat, r.host, r.version, r.claim, r.unreachable,
	(SELECT string_agg(l.lane::text, ',') FROM {{lane}} l WHERE l.owner = r.instance)
FROM {{relay}} r ORDER BY r.instance <> $1::text, r.instance`

// queryFenced checks the caller's lease and keeps it from ending until the
// commit; renewals go on. Index: the lease's key. Locks: FOR KEY SHARE on it.
const queryFenced = `SELECT 1 FROM {{relay}} WHERE instance = $1::text AND epoch = $2::bigint FOR KEY SHARE`

// queryPair locks the caller's lease row and another one, in order.
// Index: the lease's key. Locks: FOR UPDATE on both.
const queryPair = `SELECT instance FROM {{relay}} WHERE instance IN ($1::text, $2::text) ORDER BY instance FOR UPDATE`

// queryEvict ends a lease if it is still as the caller saw it. A renewal that is
// under way is waited for, and then the beat is another.
// Index: the lease's key. Locks: one lease row.
const queryEvict = `
DELETE FROM {{relay}} WHERE instance = $1::text AND epoch = $2::bigint AND beat = $3::bigint
	AND EXISTS (SELECT FROM {{relay}} WHERE instance = $4::text AND epoch = $5::bigint)`

// queryForget ends a lease whatever its beat, by its own relay.
const queryForget = `DELETE FROM {{relay}} WHERE instance = $1::text AND epoch = $2::bigint`

// queryEvictLanes frees the lanes of a relay that has no lease row. It runs
// behind the DELETE, with a newer snapshot: lanes that the dead relay claimed
// while the DELETE waited for its row are seen. Locks: its lane rows.
const queryEvictLanes = `
UPDATE {{lane}} l SET owner = NULL, epoch = l.epoch + 1
FROM (
	SELECT lane FROM {{lane}}
	WHERE owner = $1::text AND ($2::bool OR NOT EXISTS (SELECT FROM {{relay}} WHERE instance = $1))
	ORDER BY lane FOR UPDATE
) mine WHERE l.lane = mine.lane`

// queryClaim takes free lanes. Behind queryFenced in one transaction.
// Index: the lane's key. Locks: the lane rows.
const queryClaim = `
UPDATE {{lane}} l SET owner = $1::text, epoch = l.epoch + 1
FROM (
	SELECT lane FROM {{lane}} WHERE lane = ANY($3::int[]) AND owner IS NULL ORDER BY lane FOR UPDATE
) free
WHERE l.lane = free.lane AND EXISTS (SELECT FROM {{relay}} WHERE instance = $1 AND epoch = $2::bigint)
RETURNING l.lane::int`

// queryRelease gives lanes back. Behind queryFenced in one transaction.
// Index: the lane's key. Locks: the lane rows.
const queryRelease = `
UPDATE {{lane}} l SET owner = NULL, epoch = l.epoch + 1
FROM (
	SELECT lane FROM {{lane}} WHERE lane = ANY($3::int[]) AND owner = $1::text ORDER BY lane FOR UPDATE
) mine
WHERE l.lane = mine.lane AND EXISTS (SELECT FROM {{relay}} WHERE instance = $1 AND epoch = $2::bigint)`

// queryForgetBeat ends a lease that has not changed for long.
const queryForgetBeat = `DELETE FROM {{relay}} WHERE instance = $1::text AND epoch = $2::bigint AND beat = $3::bigint`
