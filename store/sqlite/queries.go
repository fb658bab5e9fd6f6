package sqlite

// Every statement of this package, with the index that it uses and the lock
// that it takes. The file has one write lock; "reads" means that it takes none.
//
// hot is the predicate of the index outbox_hot and held that of outbox_held:
// the planner uses a partial index only where the statement repeats it.
// INDEXED BY makes a statement fail rather than scan the table.

const (
	hot       = `held IS NULL AND (available_at IS NULL OR available_at <= queued_at)`
	scheduled = `held IS NULL AND available_at > queued_at`

	// now is the clock of SQLite, in milliseconds, as in the tables' defaults.
	now = `CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)`

	// moved are the columns that a row takes along to the history and to the
	// dead letters.
	moved = `id, event_id, generation, topic, key, type, schema_version, subject_version, payload,
		content_type, headers, created_at, queued_at, available_at, held, retry_at, attempts, last_error`

	// row is what scanRow reads. CAST because SQLite keeps any kind of value in
	// any column: a word in attempts must not make the whole batch fail.
	row = `o.id, CAST(o.event_id AS TEXT), CAST(o.generation AS INTEGER), CAST(o.topic AS TEXT), CAST(o.key AS TEXT),
		coalesce(CAST(o.type AS TEXT), ''), CAST(coalesce(o.schema_version, 0) AS INTEGER),
		CAST(coalesce(o.subject_version, 0) AS INTEGER), o.payload IS NULL, o.payload, CAST(o.content_type AS TEXT),
		o.headers, CAST(o.created_at AS INTEGER), CAST(o.queued_at AS INTEGER),
		CAST(coalesce(o.available_at, 0) AS INTEGER), CAST(o.attempts AS INTEGER), coalesce(CAST(o.last_error AS TEXT), '')`
)

// Open: reads.
const (
	selectVersion       = `SELECT sqlite_version()`
	selectMode          = `PRAGMA journal_mode`
	selectObjects       = `SELECT name, coalesce(sql, '') FROM main.sqlite_schema WHERE type IN ('table', 'index')`
	selectColumns       = `SELECT name FROM pragma_table_info(?1)`
	selectSchemaVersion = `SELECT coalesce(max(version), 0) FROM {{version}}`
)

// Fetch: all read, in one snapshot.
const (
	selectNow = `SELECT ` + now

	// By primary key of sqlite_sequence's only page.
	selectSequence = `SELECT seq FROM main.sqlite_sequence WHERE name = ?1`

	// A loose scan of outbox_hot: one step of the index per topic, however many
	// rows it has.
	selectTopics = `WITH RECURSIVE t(topic) AS (
		SELECT (SELECT topic FROM {{outbox}} INDEXED BY {{name:outbox_hot}}
			WHERE ` + hot + ` AND topic > ?1 ORDER BY topic LIMIT 1)
		UNION ALL
		SELECT (SELECT o.topic FROM {{outbox}} o INDEXED BY {{name:outbox_hot}}
			WHERE o.held IS NULL AND (o.available_at IS NULL OR o.available_at <= o.queued_at) AND o.topic > t.topic
			ORDER BY o.topic LIMIT 1)
		FROM t WHERE t.topic IS NOT NULL
	) SELECT topic FROM t WHERE topic IS NOT NULL LIMIT ?2`

	// outbox_hot alone, without the table: passing over a row in flight costs
	// a fifth of a microsecond. The caller stops reading when it has enough.
	selectIDs = `SELECT id FROM {{outbox}} INDEXED BY {{name:outbox_hot}}
		WHERE ` + hot + ` AND topic = ?1 AND id > ?2 ORDER BY id`

	// CROSS JOIN keeps the order of the given ids, so the caller may stop at any
	// row. Whether the key is closed is one look-up in outbox_held per row.
	selectRows = `SELECT ` + row + `,
		o.key <> '' AND EXISTS (SELECT 1 FROM {{outbox}} h INDEXED BY {{name:outbox_held}}
			WHERE h.held IS NOT NULL AND h.topic = o.topic AND h.key = o.key)
		FROM json_each(?1) j CROSS JOIN {{outbox}} o ON o.id = j.value`

	// outbox_retry, and one look-up in outbox_held to see that the row is the
	// head of its key. Rows without a key are heads each.
	selectDue = `SELECT r.topic, r.key FROM {{outbox}} r INDEXED BY {{name:outbox_retry}}
		WHERE r.held IS NOT NULL AND r.retry_at > ?1 AND r.retry_at <= ?2 AND r.held = 'retry'
		AND (r.key = '' OR r.id = (SELECT h.id FROM {{outbox}} h INDEXED BY {{name:outbox_held}}
			WHERE h.held IS NOT NULL AND h.topic = r.topic AND h.key = r.key ORDER BY h.id LIMIT 1))
		ORDER BY r.retry_at`

	// One step each of outbox_retry and outbox_scheduled.
	selectNext = `SELECT
		(SELECT retry_at FROM {{outbox}} INDEXED BY {{name:outbox_retry}}
			WHERE held IS NOT NULL AND retry_at IS NOT NULL AND retry_at > ?1 ORDER BY retry_at LIMIT 1),
		(SELECT available_at FROM {{outbox}} INDEXED BY {{name:outbox_scheduled}}
			WHERE ` + scheduled + ` AND available_at > ?1 ORDER BY available_at LIMIT 1),
		EXISTS (SELECT 1 FROM {{outbox}} INDEXED BY {{name:outbox_scheduled}}
			WHERE ` + scheduled + ` AND available_at <= ?1)`

	selectControl = `SELECT kind, name, by, reason, since FROM {{control}} ORDER BY kind, name`
)

// Closed keys: all read.
const (
	// outbox_held, in its order.
	selectKey = `SELECT ` + row + `, o.held, CAST(coalesce(o.retry_at, 0) AS INTEGER)
		FROM {{outbox}} o INDEXED BY {{name:outbox_held}}
		WHERE o.held IS NOT NULL AND o.topic = ?1 AND o.key = ?2 ORDER BY o.id`

	// The same for events without a key: those that may be sent now.
	selectKeyless = `SELECT ` + row + `, o.held, CAST(coalesce(o.retry_at, 0) AS INTEGER)
		FROM {{outbox}} o INDEXED BY {{name:outbox_held}}
		WHERE o.held IS NOT NULL AND o.topic = ?1 AND o.key = ''
		AND o.held <> 'blocked' AND coalesce(o.retry_at <= ?2 OR o.retry_at > ?3, true) ORDER BY o.id`
	selectKeylessState = `SELECT count(*), min(CASE WHEN held = 'retry' THEN retry_at END) FROM (
		SELECT held, retry_at FROM {{outbox}} INDEXED BY {{name:outbox_held}}
		WHERE held IS NOT NULL AND topic = ?1 AND key = '' ORDER BY id LIMIT 1000)`

	// outbox_hot up to an id. A row is marked behind only when it is the lowest
	// that a fetch found, so what lies below is no more than what is in flight.
	selectUnheld = `SELECT key, min(id) FROM {{outbox}} INDEXED BY {{name:outbox_hot}}
		WHERE ` + hot + ` AND topic = ?1 AND id <= ?2 GROUP BY key`

	// A loose scan of outbox_held: one step of the index per closed key.
	selectHeldKeys = `WITH RECURSIVE k(id, topic, key, held, retry_at) AS (
		SELECT * FROM (SELECT id, topic, key, held, retry_at FROM {{outbox}} INDEXED BY {{name:outbox_held}}
			WHERE held IS NOT NULL AND (topic, key) > (?1, ?2) ORDER BY topic, key, id LIMIT 1)
		UNION ALL
		SELECT o.id, o.topic, o.key, o.held, o.retry_at FROM k JOIN {{outbox}} o ON o.id = (
			SELECT h.id FROM {{outbox}} h INDEXED BY {{name:outbox_held}}
			WHERE h.held IS NOT NULL AND (h.topic, h.key) > (k.topic, k.key) ORDER BY h.topic, h.key, h.id LIMIT 1)
	) SELECT topic, key FROM k
	WHERE (k.key <> '' AND k.held <> 'blocked' AND coalesce(k.retry_at <= ?3 OR k.retry_at > ?4, true))
		OR (k.key = '' AND EXISTS (SELECT 1 FROM {{outbox}} h INDEXED BY {{name:outbox_held}}
			WHERE h.held IS NOT NULL AND h.topic = k.topic AND h.key = ''
			AND h.held <> 'blocked' AND coalesce(h.retry_at <= ?3 OR h.retry_at > ?4, true)))
	LIMIT ?5`
)

// Settle: under the write lock, each by primary key.
const (
	selectRefs = `SELECT o.id, CAST(o.event_id AS TEXT), CAST(o.generation AS INTEGER)
		FROM json_each(?1) j CROSS JOIN {{outbox}} o ON o.id = j.value`

	insertHistory = `INSERT INTO {{delivered}} (delivered_at, ` + moved + `)
		SELECT ` + now + `, ` + moved + ` FROM {{outbox}} WHERE id IN (SELECT value FROM json_each(?1))`
	insertHistoryHead = `INSERT INTO {{delivered}} (delivered_at, id, event_id, generation, topic, key, type,
		schema_version, subject_version, content_type, created_at, queued_at, available_at, held, retry_at,
		attempts, last_error)
		SELECT ` + now + `, id, event_id, generation, topic, key, type, schema_version, subject_version, content_type,
		created_at, queued_at, available_at, held, retry_at, attempts, last_error
		FROM {{outbox}} WHERE id IN (SELECT value FROM json_each(?1))`
	deleteRows = `DELETE FROM {{outbox}} WHERE id IN (SELECT value FROM json_each(?1))`

	updateTried = `UPDATE {{outbox}} SET attempts = ?2, last_error = ?3 WHERE id = ?1`
	// A row that is held already keeps its state: behind is the weakest.
	updateBehind = `UPDATE {{outbox}} SET held = 'behind', retry_at = NULL WHERE id = ?1 AND held IS NULL`
	updateHeld   = `UPDATE {{outbox}} SET held = ?2, retry_at = ` + now + ` + ?3 WHERE id = ?1`
	updateMark   = `UPDATE {{outbox}} SET held = ?2, retry_at = ` + now + ` + ?3, attempts = ?4, last_error = ?5 WHERE id = ?1`

	insertDead = `INSERT OR REPLACE INTO {{dead}} (id, event_id, generation, topic, key, type, schema_version,
		subject_version, payload, content_type, headers, created_at, queued_at, available_at, held, retry_at,
		last_error, attempts, cause_class, cause)
		SELECT id, event_id, generation, topic, key, type, schema_version, subject_version, payload, content_type,
		headers, created_at, queued_at, available_at, held, retry_at, last_error, ?2, ?3, ?4
		FROM {{outbox}} WHERE id = ?1`
	deleteRow = `DELETE FROM {{outbox}} WHERE id = ?1`

	selectFence = `SELECT EXISTS (SELECT 1 FROM {{relay}} WHERE instance = ?1 AND epoch = ?2)`
)

// Promote and Keep: under the write lock.
const (
	// outbox_scheduled, in its order.
	selectScheduled = `SELECT id FROM {{outbox}} INDEXED BY {{name:outbox_scheduled}}
		WHERE ` + scheduled + ` AND available_at <= ` + now + ` ORDER BY available_at, id LIMIT ?1`
	// A new row, because raising the id of the old one would not raise the
	// sequence, and the next insert would draw the same id.
	insertPromoted = `INSERT INTO {{outbox}} (event_id, generation, topic, key, type, schema_version, subject_version,
		payload, content_type, headers, created_at, queued_at, available_at, attempts, last_error)
		SELECT event_id, generation, topic, key, type, schema_version, subject_version,
		payload, content_type, headers, created_at, max(available_at, ` + now + `), available_at, attempts, last_error
		FROM {{outbox}} WHERE id IN (SELECT value FROM json_each(?1)) ORDER BY available_at, id`

	// The first entries of the history's primary key.
	deleteDelivered = `DELETE FROM {{delivered}} WHERE (delivered_at, id) IN (
		SELECT delivered_at, id FROM {{delivered}} WHERE delivered_at < ` + now + ` - ?1 ORDER BY delivered_at, id LIMIT ?2)`
	// outbox_dead_died.
	deleteDead = `DELETE FROM {{dead}} WHERE rowid IN (
		SELECT rowid FROM {{dead}} WHERE died_at < ` + now + ` - ?1 ORDER BY died_at, id LIMIT ?2)`
	selectKeep = `SELECT EXISTS (SELECT 1 FROM {{delivered}} WHERE delivered_at < ` + now + ` - ?1)
		OR (?2 > 0 AND EXISTS (SELECT 1 FROM {{dead}} WHERE died_at < ` + now + ` - ?2))`
)

// Leases: under the write lock, by primary key or over the few rows of
// outbox_relay.
const (
	// The one lane's row also counts the epochs: rows of relays come and go, and
	// an epoch must never come back.
	updateEpoch = `UPDATE {{lane}} SET epoch = 1 + max(epoch, coalesce((SELECT max(epoch) FROM {{relay}}), 0))
		WHERE lane = 0 RETURNING epoch`
	insertRelay = `INSERT OR REPLACE INTO {{relay}} (instance, epoch, beat, host, version, claim)
		VALUES (?1, ?2, 1, ?3, ?4, ?5)`
	updateBeat    = `UPDATE {{relay}} SET beat = beat + 1, unreachable = ?3 WHERE instance = ?1 AND epoch = ?2`
	selectMembers = `SELECT r.instance, r.epoch, r.beat, r.host, r.version, r.claim, r.unreachable,
			EXISTS (SELECT 1 FROM {{lane}} l WHERE l.owner = r.instance)
		FROM {{relay}} r ORDER BY r.instance <> ?1, r.started_at, r.instance`
	deleteRelay = `DELETE FROM {{relay}} WHERE instance = ?1 AND epoch = ?2 AND (?3 IS NULL OR beat = ?3)`
	updateFree  = `UPDATE {{lane}} SET owner = NULL WHERE lane = 0 AND owner = ?1`
	updateClaim = `UPDATE {{lane}} SET owner = ?1 WHERE lane = 0
		AND (owner IS NULL OR NOT EXISTS (SELECT 1 FROM {{relay}} r WHERE r.instance = {{name:lane}}.owner))`
)

// Competing claims. The look for candidates reads; the rest is under the write
// lock, by primary key.
const (
	// claimable: due, and not held, or its retry or another's claim has run out.
	claimable = `((o.held IS NULL AND (o.available_at IS NULL OR o.available_at <= ?2))
		OR (o.held = 'retry' AND (o.retry_at <= ?2 OR o.retry_at > ?3)))`

	// The table by its primary key, since the oldest of all topics are wanted:
	// held and scheduled rows in front of them are passed over.
	selectCandidates = `SELECT o.id FROM {{outbox}} o NOT INDEXED WHERE ` + claimable + ` ORDER BY o.id LIMIT ?1`

	selectClaim = `SELECT ` + row + `, o.held, CAST(coalesce(o.retry_at, 0) AS INTEGER)
		FROM json_each(?1) j CROSS JOIN {{outbox}} o ON o.id = j.value WHERE ` + claimable
	updateClaimed = `UPDATE {{outbox}} SET held = 'retry', retry_at = ?2 WHERE id IN (SELECT value FROM json_each(?1))`
	selectClaimed = `SELECT o.id FROM json_each(?1) j CROSS JOIN {{outbox}} o ON o.id = j.value
		WHERE o.held = 'retry' AND o.retry_at = ?2`
	updateRestore = `UPDATE {{outbox}} SET held = ?2, retry_at = ?3 WHERE id = ?1`
)

// Report: reads, each bounded by a LIMIT.
const (
	// Counts stop at their LIMIT; what they read of the table is nothing, or one
	// row for the age.
	selectHotCount = `SELECT count(*) FROM (SELECT 1 FROM {{outbox}} INDEXED BY {{name:outbox_hot}}
		WHERE ` + hot + ` AND topic = ?1 LIMIT ?2)`
	selectHotOldest = `SELECT CAST(queued_at AS INTEGER) FROM {{outbox}} INDEXED BY {{name:outbox_hot}}
		WHERE ` + hot + ` AND topic = ?1 ORDER BY id LIMIT 1`
	selectHeldRows = `SELECT topic, key, held, CAST(max(queued_at, coalesce(available_at, 0)) AS INTEGER)
		FROM {{outbox}} INDEXED BY {{name:outbox_held}} WHERE held IS NOT NULL ORDER BY topic, key, id LIMIT ?1`
	selectScheduledRows = `SELECT topic, CAST(available_at AS INTEGER) FROM {{outbox}} INDEXED BY {{name:outbox_scheduled}}
		WHERE ` + scheduled + ` ORDER BY available_at, id LIMIT ?1`
	selectDeadRows = `SELECT topic, count(*) FROM (SELECT topic FROM {{dead}} LIMIT ?1) GROUP BY topic`
)
