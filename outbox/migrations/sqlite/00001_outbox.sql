-- The outbox, its history, its dead letters and the relays' own tables.
--
-- Times are UTC milliseconds since 1970, by the database library's own clock;
-- julianday() is used because old SQLite libraries of other languages have no
-- unixepoch('subsec').

-- +goose Up

-- AUTOINCREMENT: without it the id of a deleted row can come back, and a late
-- settle of the old row would remove an event that was never sent.
CREATE TABLE {{outbox}} (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    event_id        TEXT    NOT NULL DEFAULT (lower(
                        substr(hex(randomblob(4)), 1, 8) || '-' || substr(hex(randomblob(2)), 1, 4) || '-4' ||
                        substr(hex(randomblob(2)), 2, 3) || '-' || substr('89ab', 1 + (random() & 3), 1) ||
                        substr(hex(randomblob(2)), 2, 3) || '-' || hex(randomblob(6)))),
    generation      INTEGER NOT NULL DEFAULT 0,
    topic           TEXT    NOT NULL,
    key             TEXT    NOT NULL DEFAULT '',
    type            TEXT,
    schema_version  INTEGER,
    subject_version INTEGER,
    payload         BLOB,
    content_type    TEXT    NOT NULL DEFAULT 'application/json',
    headers         TEXT,
    created_at      INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    queued_at       INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    available_at    INTEGER,
    held            TEXT,
    retry_at        INTEGER,
    attempts        INTEGER NOT NULL DEFAULT 0,
    last_error      TEXT,
    -- Lower case: SQLite has no uuid type, and ids are compared as text.
    CONSTRAINT {{name:outbox_event_id_uuid}} CHECK (length(event_id) = 36
        AND event_id GLOB '????????-????-????-????-????????????' AND event_id NOT GLOB '*[^0-9a-f-]*'),
    CONSTRAINT {{name:outbox_topic_length}} CHECK (length(CAST(topic AS BLOB)) BETWEEN 1 AND 255),
    CONSTRAINT {{name:outbox_key_length}} CHECK (length(CAST(key AS BLOB)) <= 1024),
    -- A column takes any type here, and a blob or a NUL in a text is another
    -- value for each language that reads it. PostgreSQL's text holds no NUL.
    CONSTRAINT {{name:outbox_topic_text}} CHECK (typeof(topic) = 'text' AND instr(CAST(topic AS BLOB), x'00') = 0),
    CONSTRAINT {{name:outbox_key_text}} CHECK (typeof(key) = 'text' AND instr(CAST(key AS BLOB), x'00') = 0),
    -- json_type() alone takes what new libraries add to JSON and old ones, and
    -- the relay, cannot read; json_valid() of one argument is strict in all.
    CONSTRAINT {{name:outbox_headers_object}} CHECK (headers IS NULL
        OR CASE WHEN typeof(headers) = 'text' AND json_valid(headers) THEN json_type(headers) = 'object' ELSE 0 END),
    CONSTRAINT {{name:outbox_held_state}} CHECK (held IN ('retry', 'blocked', 'behind'))
);

-- The fetch: the lowest rows of a topic.
CREATE INDEX {{outbox_hot}} ON {{name:outbox}} (topic, id)
    WHERE held IS NULL AND (available_at IS NULL OR available_at <= queued_at);
-- A closed key's rows, and whether a key is closed.
CREATE INDEX {{outbox_held}} ON {{name:outbox}} (topic, key, id)
    WHERE held IS NOT NULL;
-- The heads of closed keys whose next try is due.
CREATE INDEX {{outbox_retry}} ON {{name:outbox}} (retry_at)
    WHERE held IS NOT NULL AND retry_at IS NOT NULL;
-- Events that are not yet due by the writer's wish.
CREATE INDEX {{outbox_scheduled}} ON {{name:outbox}} (available_at, id)
    WHERE held IS NULL AND available_at > queued_at;

-- Delivered events for the retention, removed in small batches.
CREATE TABLE {{delivered}} (
    delivered_at    INTEGER NOT NULL,
    id              INTEGER NOT NULL,
    event_id        TEXT    NOT NULL,
    generation      INTEGER NOT NULL,
    topic           TEXT    NOT NULL,
    key             TEXT    NOT NULL,
    type            TEXT,
    schema_version  INTEGER,
    subject_version INTEGER,
    payload         BLOB,
    content_type    TEXT    NOT NULL,
    headers         TEXT,
    created_at      INTEGER NOT NULL,
    queued_at       INTEGER NOT NULL,
    available_at    INTEGER,
    held            TEXT,
    retry_at        INTEGER,
    attempts        INTEGER NOT NULL,
    last_error      TEXT,
    PRIMARY KEY (delivered_at, id)
) WITHOUT ROWID;

-- Dead letters keep the event whole, with its cause.
CREATE TABLE {{dead}} (
    id              INTEGER NOT NULL,
    event_id        TEXT    NOT NULL,
    generation      INTEGER NOT NULL,
    topic           TEXT    NOT NULL,
    key             TEXT    NOT NULL,
    type            TEXT,
    schema_version  INTEGER,
    subject_version INTEGER,
    payload         BLOB,
    content_type    TEXT    NOT NULL,
    headers         TEXT,
    created_at      INTEGER NOT NULL,
    queued_at       INTEGER NOT NULL,
    available_at    INTEGER,
    held            TEXT,
    retry_at        INTEGER,
    attempts        INTEGER NOT NULL,
    last_error      TEXT,
    cause_class     TEXT    NOT NULL,
    cause           TEXT    NOT NULL,
    died_at         INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (id, event_id, generation)
);
CREATE INDEX {{outbox_dead_died}} ON {{name:dead}} (died_at, id);

-- One row per running relay: its lease is the counter beat.
CREATE TABLE {{relay}} (
    instance   TEXT    PRIMARY KEY,
    epoch      INTEGER NOT NULL,
    beat       INTEGER NOT NULL,
    host       TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    claim      TEXT    NOT NULL DEFAULT 'lanes',
    -- Destinations that it cannot reach, hashed, one a line: another that can
    -- takes its lanes.
    unreachable TEXT   NOT NULL DEFAULT '',
    started_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER))
);
-- SQLite has one lane: it has one writer at a time anyway.
CREATE TABLE {{lane}} (
    lane  INTEGER PRIMARY KEY,
    owner TEXT,
    epoch INTEGER NOT NULL DEFAULT 0
);
INSERT INTO {{lane}} (lane) VALUES (0);

-- What operators paused.
CREATE TABLE {{control}} (
    kind   TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    by     TEXT    NOT NULL DEFAULT '',
    since  INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    reason TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (kind, name)
);

-- The version of these tables, whatever tool ran this file: every tool keeps
-- its own list elsewhere, and a relay has to know what it meets.
CREATE TABLE {{version}} (
    version INTEGER PRIMARY KEY
);
INSERT INTO {{version}} (version) VALUES (1);

-- Monitoring with SQL alone, also when no relay runs. A view may not name its
-- own schema where the file is attached under another name, and old libraries
-- have no FULL JOIN.
CREATE VIEW {{health}} AS
SELECT topic,
       sum(pending)                                  AS pending_events,
       max(0.0, coalesce(max(age), 0.0))             AS oldest_pending_seconds,
       sum(held)                                     AS held_events,
       sum(scheduled)                                AS scheduled_events,
       sum(dead)                                     AS dead_events
FROM (
    SELECT topic, is_due AS pending, CASE WHEN is_due THEN (moment - max(queued_at, coalesce(available_at, 0))) / 1000.0 END AS age,
           held IS NOT NULL AS held, NOT is_due AS scheduled, 0 AS dead
    FROM (SELECT *, available_at IS NULL OR available_at <= moment AS is_due
          FROM {{name:outbox}},
               (SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) AS moment))
    UNION ALL
    SELECT topic, 0, NULL, 0, 0, 1 FROM {{name:dead}}
)
GROUP BY topic;

-- +goose Down
DROP VIEW {{health}};
DROP TABLE {{outbox}};
DROP TABLE {{delivered}};
DROP TABLE {{dead}};
DROP TABLE {{relay}};
DROP TABLE {{lane}};
DROP TABLE {{control}};
DROP TABLE {{version}};
