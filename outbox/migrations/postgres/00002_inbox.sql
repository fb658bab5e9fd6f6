-- The inbox: one row per event that a consumer has applied, written in the
-- consumer's own transaction.

-- +goose Up
SET LOCAL lock_timeout = '3s';
CREATE TABLE {{inbox}} (
    consumer   text        NOT NULL,
    identity   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (consumer, identity)
);

-- +goose Down
SET LOCAL lock_timeout = '3s';
DROP TABLE {{inbox}};
