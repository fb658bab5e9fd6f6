package inspect

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/postrider/postrider/outbox"
)

// ErrNoID is returned by [Outbox.Find] for a text that is no id at all.
var ErrNoID = errors.New("not an id: neither a UUID nor the number of a row")

// Event is where one event is and what is known of it; never its payload.
type Event struct {
	ID         int64  `json:"id,string"`
	EventID    string `json:"event_id"`
	Generation int    `json:"generation"`
	Topic      string `json:"topic"`
	Key        string `json:"key"`
	Type       string `json:"type,omitempty"`
	// State is pending, scheduled, held, delivered or dead.
	State string `json:"state"`
	// Held is the state of a held event: retry, blocked or behind.
	Held string `json:"held,omitempty"`
	// QueuedSeconds is how long ago it took its place in the order.
	QueuedSeconds float64 `json:"queued_seconds"`
	// DueInSeconds is how long until a scheduled event is due or a held one is
	// tried again; negative since then.
	DueInSeconds float64 `json:"due_in_seconds,omitempty"`
	Attempts     int     `json:"attempts"`
	// Cause is the last error, or what made it a dead letter.
	Cause      string `json:"cause,omitempty"`
	CauseClass string `json:"cause_class,omitempty"`
	// EndedSeconds is how long ago it was delivered or died.
	EndedSeconds float64 `json:"ended_seconds,omitempty"`
}

// fromOutbox reads pending events. The row's state is decided by the database's
// clock. By id it uses the primary key, by event id or key it reads the outbox,
// which is nearly empty in a healthy system.
const fromOutbox = `
SELECT id, {{id:event_id}}, generation, topic, key, coalesce(type, ''),
       CASE WHEN held IS NOT NULL THEN 'held'
            WHEN {{until:available_at}} > 0 THEN 'scheduled' ELSE 'pending' END,
       coalesce(held, ''), -{{until:queued_at}},
       coalesce(CASE WHEN held IS NOT NULL THEN {{until:retry_at}} ELSE {{until:available_at}} END, 0.0),
       attempts, coalesce(last_error, ''), '', 0.0
FROM {{outbox}}`

// fromDelivered reads the history. By id or event id it reads all of what the
// retention keeps: the history has no index for it, because each index costs
// every settle.
const fromDelivered = `
SELECT id, {{id:event_id}}, generation, topic, key, coalesce(type, ''), 'delivered', '',
       -{{until:queued_at}}, 0.0, attempts, '', '', -{{until:delivered_at}}
FROM {{delivered}}`

// fromDead reads the dead letters, by id with the primary key.
const fromDead = `
SELECT id, {{id:event_id}}, generation, topic, key, coalesce(type, ''), 'dead', '',
       -{{until:queued_at}}, 0.0, attempts, cause, cause_class, -{{until:died_at}}
FROM {{dead}}`

// Find returns all that is known of an event, by its event id or by the number
// of its row. A replayed event has several entries; pending ones come first.
func (o Outbox) Find(ctx context.Context, id string) ([]Event, error) {
	var arg any
	where := " WHERE event_id = {{uuid:$1}}"
	if number, err := strconv.ParseInt(id, 10, 64); err == nil {
		where, arg = " WHERE id = $1", number
	} else if parsed, err := outbox.ParseID(id); err == nil {
		arg = parsed.String()
	} else {
		return nil, ErrNoID
	}
	var events []Event
	for _, from := range []string{fromOutbox, fromDead, fromDelivered} {
		found, err := o.events(ctx, from+where+" ORDER BY generation DESC LIMIT 10", arg)
		if err != nil {
			return nil, err
		}
		events = append(events, found...)
	}
	return events, nil
}

// Head returns the event of a key that all others of it wait for: the lowest
// row that is due. ok is false if the key has none.
func (o Outbox) Head(ctx context.Context, topic, key string) (head Event, ok bool, err error) {
	query := fromOutbox + ` WHERE topic = $1 AND key = $2
		AND (held IS NOT NULL OR available_at IS NULL OR {{until:available_at}} <= 0)
		ORDER BY id LIMIT 1`
	events, err := o.events(ctx, query, topic, key)
	if err != nil || len(events) == 0 {
		return Event{}, false, err
	}
	return events[0], true, nil
}

// TopicsOf returns the topics in which a key has something pending or dead.
func (o Outbox) TopicsOf(ctx context.Context, key string) ([]string, error) {
	var topics []string
	err := o.each(ctx, "topics of a key", `
		SELECT topic FROM {{outbox}} WHERE key = $1 UNION SELECT topic FROM {{dead}} WHERE key = $1 ORDER BY 1 LIMIT 100`,
		[]any{key}, func(rows *sql.Rows) error {
			var topic string
			err := rows.Scan(&topic)
			topics = append(topics, topic)
			return err
		})
	return topics, err
}

// Waiting counts a key's pending events, up to 10,000, and its dead letters.
func (o Outbox) Waiting(ctx context.Context, topic, key string) (pending, dead int64, err error) {
	err = o.DB.QueryRowContext(ctx, o.sql(`
		SELECT (SELECT count(*) FROM (SELECT 1 FROM {{outbox}} WHERE topic = $1 AND key = $2 LIMIT 10000) p),
		       (SELECT count(*) FROM (SELECT 1 FROM {{dead}} WHERE topic = $1 AND key = $2 LIMIT 10000) d)`),
		topic, key).Scan(&pending, &dead)
	if err != nil {
		return 0, 0, fmt.Errorf("events of a key: %w", err)
	}
	return pending, dead, nil
}

func (o Outbox) events(ctx context.Context, query string, args ...any) ([]Event, error) {
	var events []Event
	err := o.each(ctx, "events", query, args, func(rows *sql.Rows) error {
		var e Event
		err := rows.Scan(&e.ID, &e.EventID, &e.Generation, &e.Topic, &e.Key, &e.Type, &e.State, &e.Held,
			&e.QueuedSeconds, &e.DueInSeconds, &e.Attempts, &e.Cause, &e.CauseClass, &e.EndedSeconds)
		events = append(events, e)
		return err
	})
	return events, err
}
