package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// account compares what was committed with what is in the stream and what the
// consumer applied.
func account(ctx context.Context, s *streamServer, c *consumer, log *writeLog) (Account, error) {
	defer c.db.Close() //nolint:errcheck // read to the end
	a := Account{Committed: len(log.committed), RolledBack: log.rolledBack}
	applied := map[string]int{}
	rows, err := c.db.QueryContext(ctx, `SELECT id FROM applied`)
	if err != nil {
		return a, fmt.Errorf("count applied events: %w", err)
	}
	defer rows.Close() //nolint:errcheck // read to the end
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return a, err
		}
		applied[id]++
		a.Applied++
	}
	if err := rows.Err(); err != nil {
		return a, err
	}
	for id := range log.committed {
		if applied[id] == 0 {
			a.Lost++
		}
	}
	for id, times := range applied {
		if _, ok := log.committed[id]; !ok {
			a.Invented++
		} else if times > 1 {
			a.Invented += times - 1
		}
	}
	return a, a.read(ctx, s, log)
}

// read goes through the stream: how often each event is in it, and whether the
// first deliveries of each account are in order.
func (a *Account) read(ctx context.Context, s *streamServer, log *writeLog) error {
	st, err := s.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	info, err := st.Info(ctx)
	if err != nil {
		return err
	}
	cons, err := s.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	last := map[string]int64{}
	for a.Delivered < int(info.State.Msgs) {
		m, err := cons.Next(jetstream.FetchMaxWait(5 * time.Second))
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		a.Delivered++
		id := m.Headers().Get("ce-id")
		if seen[id] {
			a.Duplicates++
			continue
		}
		seen[id] = true
		if _, ok := log.committed[id]; !ok {
			a.Invented++
		}
		var body struct {
			Account string `json:"account"`
			Version int64  `json:"version"`
		}
		if err := json.Unmarshal(m.Data(), &body); err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		if body.Version <= last[body.Account] {
			a.OutOfOrder++
		}
		last[body.Account] = body.Version
	}
	return nil
}
