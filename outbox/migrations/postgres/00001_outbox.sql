-- The outbox, its history, its dead letters and the relays' own tables.

-- +goose Up
-- A migration that waits for a lock makes every writer behind it wait, so it
-- gives up soon and is run again.
SET LOCAL lock_timeout = '3s';

-- Only what is pending: settling moves a row to the history, so the table is
-- nearly empty in a healthy system and its indexes stay small.
-- The identity must not cache: ids are the order of the events of one key.
CREATE TABLE {{outbox}} (
    id              bigint GENERATED ALWAYS AS IDENTITY (CACHE 1) PRIMARY KEY,
    event_id        uuid        NOT NULL DEFAULT gen_random_uuid(),
    generation      integer     NOT NULL DEFAULT 0,
    topic           text        NOT NULL,
    key             text        NOT NULL DEFAULT '',
    type            text,
    schema_version  integer,
    subject_version bigint,
    payload         bytea,
    content_type    text        NOT NULL DEFAULT 'application/json',
    headers         jsonb,
    -- clock_timestamp(), not now(): now() is the start of the transaction, and
    -- an age counted from there alarms for every long transaction.
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    queued_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    available_at    timestamptz,
    held            text,
    retry_at        timestamptz,
    attempts        integer     NOT NULL DEFAULT 0,
    last_error      text,
    CONSTRAINT {{name:outbox_topic_length}} CHECK (octet_length(topic) BETWEEN 1 AND 255),
    CONSTRAINT {{name:outbox_key_length}} CHECK (octet_length(key) <= 1024),
    CONSTRAINT {{name:outbox_headers_object}} CHECK (jsonb_typeof(headers) = 'object'),
    CONSTRAINT {{name:outbox_held_state}} CHECK (held IN ('retry', 'blocked', 'behind'))
);

-- The fetch: the lowest rows of a topic.
CREATE INDEX {{name:outbox_hot}} ON {{outbox}} (topic, id)
    WHERE held IS NULL AND (available_at IS NULL OR available_at <= queued_at);
-- A closed key's rows, and whether a key is closed.
CREATE INDEX {{name:outbox_held}} ON {{outbox}} (topic, key, id)
    WHERE held IS NOT NULL;
-- The heads of closed keys whose next try is due.
CREATE INDEX {{name:outbox_retry}} ON {{outbox}} (retry_at)
    WHERE held IS NOT NULL AND retry_at IS NOT NULL;
-- Events that are not yet due by the writer's wish.
CREATE INDEX {{name:outbox_scheduled}} ON {{outbox}} (available_at, id)
    WHERE held IS NULL AND available_at > queued_at;

-- Delivered events for the retention: a ring of 8 partitions, filled by time
-- slot and emptied with TRUNCATE. Only delivered rows ever get here, so
-- emptying a partition can lose nothing, and no DDL runs at run time.
CREATE TABLE {{delivered}} (
    slot            smallint    NOT NULL,
    delivered_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    id              bigint      NOT NULL,
    event_id        uuid        NOT NULL,
    generation      integer     NOT NULL,
    topic           text        NOT NULL,
    key             text        NOT NULL,
    type            text,
    schema_version  integer,
    subject_version bigint,
    payload         bytea,
    content_type    text        NOT NULL,
    headers         jsonb,
    created_at      timestamptz NOT NULL,
    queued_at       timestamptz NOT NULL,
    available_at    timestamptz,
    held            text,
    retry_at        timestamptz,
    attempts        integer     NOT NULL,
    last_error      text,
    PRIMARY KEY (slot, delivered_at, id)
) PARTITION BY LIST (slot);
CREATE TABLE {{delivered_0}} PARTITION OF {{delivered}} FOR VALUES IN (0);
CREATE TABLE {{delivered_1}} PARTITION OF {{delivered}} FOR VALUES IN (1);
CREATE TABLE {{delivered_2}} PARTITION OF {{delivered}} FOR VALUES IN (2);
CREATE TABLE {{delivered_3}} PARTITION OF {{delivered}} FOR VALUES IN (3);
CREATE TABLE {{delivered_4}} PARTITION OF {{delivered}} FOR VALUES IN (4);
CREATE TABLE {{delivered_5}} PARTITION OF {{delivered}} FOR VALUES IN (5);
CREATE TABLE {{delivered_6}} PARTITION OF {{delivered}} FOR VALUES IN (6);
CREATE TABLE {{delivered_7}} PARTITION OF {{delivered}} FOR VALUES IN (7);

-- Dead letters keep the event whole, with its cause.
CREATE TABLE {{dead}} (
    id              bigint      NOT NULL,
    event_id        uuid        NOT NULL,
    generation      integer     NOT NULL,
    topic           text        NOT NULL,
    key             text        NOT NULL,
    type            text,
    schema_version  integer,
    subject_version bigint,
    payload         bytea,
    content_type    text        NOT NULL,
    headers         jsonb,
    created_at      timestamptz NOT NULL,
    queued_at       timestamptz NOT NULL,
    available_at    timestamptz,
    held            text,
    retry_at        timestamptz,
    attempts        integer     NOT NULL,
    last_error      text,
    cause_class     text        NOT NULL,
    cause           text        NOT NULL,
    died_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (id, event_id, generation)
);
CREATE INDEX {{name:outbox_dead_died}} ON {{dead}} (died_at, id);

-- One row per running relay: its lease is the counter beat.
CREATE TABLE {{relay}} (
    instance   text        PRIMARY KEY,
    epoch      bigint      NOT NULL,
    beat       bigint      NOT NULL,
    host       text        NOT NULL,
    version    text        NOT NULL,
    claim      text        NOT NULL DEFAULT 'lanes',
    -- Destinations that it cannot reach, hashed, one a line: another that can
    -- takes its lanes.
    unreachable text       NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Changes only when a lane moves. The epoch of a lane only grows.
CREATE TABLE {{lane}} (
    lane  smallint PRIMARY KEY,
    owner text,
    epoch bigint   NOT NULL DEFAULT 0
);
INSERT INTO {{lane}} (lane) SELECT generate_series(0, 255);

-- What operators paused.
CREATE TABLE {{control}} (
    kind   text        NOT NULL,
    name   text        NOT NULL,
    by     text        NOT NULL DEFAULT '',
    since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason text        NOT NULL DEFAULT '',
    PRIMARY KEY (kind, name)
);

-- The version of these tables, whatever tool ran this file: every tool keeps
-- its own list elsewhere, and a relay has to know what it meets.
CREATE TABLE {{version}} (
    version integer PRIMARY KEY
);
INSERT INTO {{version}} (version) VALUES (1);

-- Monitoring with SQL alone, also when no relay runs.
CREATE VIEW {{health}} AS
SELECT coalesce(o.topic, d.topic)                AS topic,
       coalesce(o.pending_events, 0)             AS pending_events,
       coalesce(o.oldest_pending_seconds, 0)     AS oldest_pending_seconds,
       coalesce(o.held_events, 0)                AS held_events,
       coalesce(o.scheduled_events, 0)           AS scheduled_events,
       coalesce(d.dead_events, 0)                AS dead_events
FROM (
    SELECT topic,
           count(*) FILTER (WHERE available_at IS NULL OR available_at <= clock_timestamp()) AS pending_events,
           greatest(extract(epoch FROM clock_timestamp() - min(greatest(queued_at, available_at))
               FILTER (WHERE available_at IS NULL OR available_at <= clock_timestamp())), 0)::float8 AS oldest_pending_seconds,
           count(*) FILTER (WHERE held IS NOT NULL) AS held_events,
           count(*) FILTER (WHERE available_at > clock_timestamp()) AS scheduled_events
    FROM {{outbox}} GROUP BY topic
) o
FULL JOIN (SELECT topic, count(*) AS dead_events FROM {{dead}} GROUP BY topic) d ON d.topic = o.topic;

-- One call for SQL clients and for triggers of other tables. The caller needs
-- INSERT on the outbox and nothing else, so the id is made here and not read
-- back with RETURNING, which would need SELECT.
-- +goose StatementBegin
CREATE FUNCTION {{write}}(topic text, key text, type text, payload bytea, headers jsonb DEFAULT NULL) RETURNS uuid
    LANGUAGE plpgsql SET search_path = pg_catalog AS $postrider$
DECLARE made uuid := gen_random_uuid();
BEGIN
    INSERT INTO {{outbox}} (event_id, topic, key, type, payload, content_type, headers)
    VALUES (made, $1, coalesce($2, ''), $3, $4, 'application/octet-stream', $5);
    RETURN made;
END $postrider$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION {{write}}(topic text, key text, type text, payload jsonb, headers jsonb DEFAULT NULL) RETURNS uuid
    LANGUAGE plpgsql SET search_path = pg_catalog AS $postrider$
DECLARE made uuid := gen_random_uuid();
BEGIN
    INSERT INTO {{outbox}} (event_id, topic, key, type, payload, headers)
    VALUES (made, $1, coalesce($2, ''), $3, convert_to($4::text, 'UTF8'), $5);
    RETURN made;
END $postrider$;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE FUNCTION {{write}}(topic text, key text, type text, payload text, headers jsonb DEFAULT NULL) RETURNS uuid
    LANGUAGE plpgsql SET search_path = pg_catalog AS $postrider$
DECLARE made uuid := gen_random_uuid();
BEGIN
    INSERT INTO {{outbox}} (event_id, topic, key, type, payload, headers)
    VALUES (made, $1, coalesce($2, ''), $3, convert_to($4, 'UTF8'), $5);
    RETURN made;
END $postrider$;
-- +goose StatementEnd

-- The doorbell. The sequence's value is the time, in milliseconds since 1970,
-- until which a relay sleeps: free to read, no dead rows, survives rollbacks
-- and crashes. The trigger rings only while somebody sleeps, because NOTIFY
-- serialises commits; and only if the flag is at most 2 s ahead, so that a
-- killed relay or a stepped clock costs the writers nothing a moment later.
CREATE SEQUENCE {{bell}} AS bigint MINVALUE 0 START 0;
-- +goose StatementBegin
CREATE FUNCTION {{ring}}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $postrider$
DECLARE
    asleep bigint := (SELECT last_value FROM {{bell}});
    moment bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
BEGIN
    IF asleep > moment AND asleep < moment + 2000 THEN
        PERFORM pg_notify('postrider_' || TG_RELID::text, '');
    END IF;
    RETURN NULL;
END $postrider$;
-- +goose StatementEnd
-- NOTIFY forbids PREPARE TRANSACTION, so the trigger is left out where the
-- server allows two-phase commit, unless it is asked for.
-- +goose StatementBegin
DO $postrider$ BEGIN
    IF '{{doorbell}}' = 'on'
       OR ('{{doorbell}}' = 'auto' AND current_setting('max_prepared_transactions')::int = 0) THEN
        CREATE TRIGGER {{name:outbox_bell}} AFTER INSERT ON {{outbox}}
            FOR EACH STATEMENT EXECUTE FUNCTION {{ring}}();
    END IF;
END $postrider$;
-- +goose StatementEnd

-- +goose Down
SET LOCAL lock_timeout = '3s';
DROP VIEW {{health}};
DROP FUNCTION {{write}}(text, text, text, bytea, jsonb);
DROP FUNCTION {{write}}(text, text, text, jsonb, jsonb);
DROP FUNCTION {{write}}(text, text, text, text, jsonb);
DROP TABLE {{outbox}};
DROP FUNCTION {{ring}}();
DROP SEQUENCE {{bell}};
DROP TABLE {{delivered}};
DROP TABLE {{dead}};
DROP TABLE {{relay}};
DROP TABLE {{lane}};
DROP TABLE {{control}};
DROP TABLE {{version}};
