package outboxtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/postrider/postrider/outbox"
)

// Rows are a query's rows; *sql.Rows is one.
type Rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
	Close() error
}

// Querier runs a query: *sql.Tx, *sql.DB and *sql.Conn as they are, and pgx's
// transactions, connections and pools through [Pgx]. R is inferred.
type Querier[R Rows] interface {
	QueryContext(ctx context.Context, query string, args ...any) (R, error)
}

// RequireWritten stops the test unless the table "outbox", as q's connection
// resolves that name, holds an event that satisfies every match. It returns the
// first such event.
func RequireWritten[R Rows](t testing.TB, q Querier[R], matches ...Match) outbox.Event {
	t.Helper()
	return RequireWrittenTo(t, q, defaultTable, matches...)
}

// RequireNotWritten stops the test if an event satisfies every match; without
// matches, if there is any event at all.
func RequireNotWritten[R Rows](t testing.TB, q Querier[R], matches ...Match) {
	t.Helper()
	RequireNotWrittenTo(t, q, defaultTable, matches...)
}

// RequireWrittenTo is RequireWritten for an outbox of other names; Table makes
// the table's name.
func RequireWrittenTo[R Rows](t testing.TB, q Querier[R], table string, matches ...Match) outbox.Event {
	t.Helper()
	events := read(t, q, table)
	found, ok := find(events, matches)
	if !ok {
		t.Fatalf("no event written with %s", describe(events, matches))
	}
	return found
}

// RequireNotWrittenTo is RequireNotWritten for an outbox of other names.
func RequireNotWrittenTo[R Rows](t testing.TB, q Querier[R], table string, matches ...Match) {
	t.Helper()
	events := read(t, q, table)
	if _, ok := find(events, matches); ok {
		t.Fatalf("an event was written with %s", describe(events, matches))
	}
}

// defaultTable is not qualified: it is found in every dialect's default schema.
const defaultTable = "outbox"

// Table returns the outbox's name, qualified and quoted.
func Table(d outbox.Dialect, n outbox.Names) string { return n.Expand(d, "{{outbox}}") }

// read returns all pending events in the order of their ids.
func read[R Rows](t testing.TB, q Querier[R], table string) []outbox.Event {
	t.Helper()
	events, err := query(t.Context(), q, table)
	if err != nil {
		t.Fatalf("read the outbox %s: %v", table, err)
	}
	return events
}

func query[R Rows](ctx context.Context, q Querier[R], table string) (events []outbox.Event, err error) {
	// Casts to text, because drivers scan uuid and jsonb each in their own way.
	rows, err := q.QueryContext(ctx, `SELECT CAST(event_id AS text), topic, key, coalesce(type, ''), payload, payload IS NULL,
       content_type, coalesce(CAST(headers AS text), '{}'), coalesce(schema_version, 0), coalesce(subject_version, 0)
FROM `+table+` ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e outbox.Event
		var id, headers string
		var tombstone bool
		if err := rows.Scan(&id, &e.Topic, &e.Key, &e.Type, &e.Payload, &tombstone,
			&e.ContentType, &headers, &e.SchemaVersion, &e.SubjectVersion); err != nil {
			return nil, err
		}
		if !tombstone && e.Payload == nil {
			e.Payload = []byte{} // some drivers read an empty blob as nil
		}
		if e.ID, err = outbox.ParseID(id); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(headers), &e.Headers); err != nil {
			return nil, fmt.Errorf("headers of event %s: %w", id, err)
		}
		events = append(events, e)
	}
	return events, rows.Err()
}
