package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/wire"
)

// Drain is the speed at which a backlog leaves.
type Drain struct {
	Events, Keys, Payload int
	Retention             time.Duration
}

// DrainResult is what a Drain measured.
type DrainResult struct {
	RawPerSecond   float64 `json:"raw_per_second"`
	RelayPerSecond float64 `json:"relay_per_second"`
	Ratio          float64 `json:"ratio"`
}

// Run publishes the same messages raw, then writes the backlog and lets a relay
// drain it.
func (d Drain) Run(ctx context.Context, e *Env) (DrainResult, error) {
	var res DrainResult
	broker, err := e.Broker()
	if err != nil {
		return res, err
	}
	defer broker.Close(ctx) //nolint:errcheck // everything was answered
	e.Log("raw: publishing %d events without a database", d.Events)
	raw, err := d.raw(ctx, e, broker)
	if err != nil {
		return res, fmt.Errorf("raw publish: %w", err)
	}
	if err := e.Empty(ctx); err != nil {
		return res, err
	}
	e.Log("writing a backlog of %d events", d.Events)
	if err := d.fill(ctx, e); err != nil {
		return res, fmt.Errorf("write the backlog: %w", err)
	}
	e.Log("draining")
	began := time.Now()
	r, stop, err := e.serve(ctx, d.Retention, broker)
	if err != nil {
		return res, err
	}
	err = waitFor(ctx, 2*time.Millisecond, func() (bool, error) { return r.Delivered() >= int64(d.Events), nil })
	took := time.Since(began)
	if err := errors.Join(err, stop()); err != nil {
		return res, err
	}
	res.RawPerSecond = perSecond(d.Events, raw)
	res.RelayPerSecond = perSecond(d.Events, took)
	res.Ratio = res.RelayPerSecond / res.RawPerSecond
	return res, e.Empty(ctx)
}

// raw publishes the messages that the relay will publish.
func (d Drain) raw(ctx context.Context, e *Env, broker relay.Broker) (time.Duration, error) {
	encoder, err := wire.New(wire.CloudEvents, "")
	if err != nil {
		return 0, err
	}
	payload := []byte(strings.Repeat("x", d.Payload))
	const batch = 4000
	var took time.Duration
	for sent := 0; sent < d.Events; sent += batch {
		events := make([]relay.Event, min(batch, d.Events-sent))
		for i := range events {
			id := outbox.NewID().String()
			key := fmt.Sprintf("key-%d", (sent+i)%d.Keys)
			m, err := encoder.Encode(&wire.Event{
				Identity: id, Database: "bench", Topic: Topic, Key: key, Type: "bench",
				ContentType: "application/json", Payload: payload, Created: time.Now(),
			})
			if err != nil {
				return 0, err
			}
			events[i] = relay.Event{
				Identity: id, DedupID: id, Database: "bench", Topic: Topic, Destination: Topic, Type: "bench",
				ContentType: m.ContentType, Headers: m.Headers, Payload: m.Payload,
			}
		}
		began := time.Now()
		if err := d.send(ctx, e, broker, events); err != nil {
			return 0, err
		}
		took += time.Since(began)
	}
	return took, nil
}

func (d Drain) send(ctx context.Context, e *Env, broker relay.Broker, events []relay.Event) error {
	if e.Raw != nil {
		return e.Raw(ctx, events)
	}
	return errors.Join(broker.Publish(ctx, events)...)
}

// fill writes the backlog in transactions of 10,000 events.
func (d Drain) fill(ctx context.Context, e *Env) error {
	const each = 10000
	for from := 0; from < d.Events; from += each {
		to := min(from+each, d.Events)
		query := `INSERT INTO {{outbox}} (topic, key, type, payload)
			SELECT '` + Topic + `', 'key-' || (n % $1::bigint), 'bench', convert_to(repeat('x', $2::int), 'UTF8')
			FROM generate_series($3::bigint, $4::bigint) n`
		if e.Dialect == outbox.SQLite {
			query = `WITH RECURSIVE s(n) AS (SELECT $3 UNION ALL SELECT n + 1 FROM s WHERE n < $4)
				INSERT INTO {{outbox}} (topic, key, type, payload)
				SELECT '` + Topic + `', 'key-' || (n % $1), 'bench', CAST(substr(hex(zeroblob($2)), 1, $2) AS BLOB) FROM s`
		}
		if err := e.exec(ctx, query, d.Keys, d.Payload, from, to-1); err != nil {
			return err
		}
	}
	if e.Dialect == outbox.Postgres {
		return e.exec(ctx, "ANALYZE {{outbox}}")
	}
	return nil
}
