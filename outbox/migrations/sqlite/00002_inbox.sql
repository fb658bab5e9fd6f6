-- The inbox: one row per event that a consumer has applied, written in the
-- consumer's own transaction.

-- +goose Up
CREATE TABLE {{inbox}} (
    consumer   TEXT    NOT NULL,
    identity   TEXT    NOT NULL,
    applied_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)),
    PRIMARY KEY (consumer, identity)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE {{inbox}};
