package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/postrider/postrider/relay"
)

// reportRows bounds each count, and what all counts of ready rows read
// together: about 20 ms. Beyond it the numbers are lower bounds.
const reportRows = 100_000

// Report implements [relay.Reporter].
func (s *Store) Report(ctx context.Context) (relay.Report, error) {
	var r *report
	err := s.read(ctx, func(tx *sql.Tx) error {
		r = &report{topics: map[string]*relay.TopicReport{}, oldest: map[string]int64{}}
		if err := tx.QueryRowContext(ctx, selectNow).Scan(&r.now); err != nil {
			return err
		}
		for _, count := range []func(context.Context, *sql.Tx, *report) error{
			s.reportReady, s.reportHeld, s.reportScheduled, s.reportDead,
		} {
			if err := count(ctx, tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return relay.Report{}, s.explain("report on outbox", err)
	}
	return r.sum(), nil
}

// report collects the counts by topic.
type report struct {
	relay.Report
	now    int64
	topics map[string]*relay.TopicReport
	oldest map[string]int64 // since when the oldest pending event is due
}

func (r *report) topic(name string) *relay.TopicReport {
	t := r.topics[name]
	if t == nil {
		t = &relay.TopicReport{Topic: name}
		r.topics[name] = t
	}
	return t
}

func (r *report) pending(topic string, n, since int64) {
	r.topic(topic).PendingEvents += n
	if old, ok := r.oldest[topic]; !ok || since < old {
		r.oldest[topic] = since
	}
}

func (r *report) sum() relay.Report {
	out := r.Report
	for name, t := range r.topics {
		if since, ok := r.oldest[name]; ok {
			t.OldestPendingSeconds = max(0, float64(r.now-since)/1000)
		}
		out.PendingEvents += t.PendingEvents
		out.HeldEvents += t.HeldEvents
		out.ScheduledEvents += t.ScheduledEvents
		out.DeadEvents += t.DeadEvents
		out.OldestPendingSeconds = max(out.OldestPendingSeconds, t.OldestPendingSeconds)
		out.Topics = append(out.Topics, *t)
	}
	slices.SortFunc(out.Topics, func(a, b relay.TopicReport) int { return cmp.Compare(a.Topic, b.Topic) })
	return out
}

// reportReady counts what a fetch would find. The lowest id of a topic is its
// oldest, because ids and queued_at are drawn together.
func (s *Store) reportReady(ctx context.Context, tx *sql.Tx, r *report) error {
	topics, err := readStrings(ctx, tx, s.sql(selectTopics), "", maxTopics)
	if err != nil {
		return err
	}
	r.Estimated = r.Estimated || len(topics) == maxTopics
	left := int64(reportRows)
	for _, topic := range topics {
		var n, since int64
		if err := tx.QueryRowContext(ctx, s.sql(selectHotOldest), topic).Scan(&since); err != nil {
			return err
		}
		if left > 0 {
			if err := tx.QueryRowContext(ctx, s.sql(selectHotCount), topic, left).Scan(&n); err != nil {
				return err
			}
		}
		if left -= n; left <= 0 {
			r.Estimated = true
		}
		r.pending(topic, max(n, 1), since)
	}
	return nil
}

func (s *Store) reportHeld(ctx context.Context, tx *sql.Tx, r *report) error {
	rows, err := tx.QueryContext(ctx, s.sql(selectHeldRows), reportRows)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	n := 0
	var last relay.Key
	for ; rows.Next(); n++ {
		var k relay.Key
		var held string
		var since int64
		if err := rows.Scan(&k.Topic, &k.Key, &held, &since); err != nil {
			return err
		}
		r.topic(k.Topic).HeldEvents++
		r.pending(k.Topic, 1, since)
		// The head of a key comes first. Without a key there is nothing to block.
		if k != last && k.Key != "" && relay.Held(held) == relay.HeldBlocked {
			r.BlockedKeys++
		}
		last = k
	}
	r.Estimated = r.Estimated || n == reportRows
	return rows.Err()
}

func (s *Store) reportScheduled(ctx context.Context, tx *sql.Tx, r *report) error {
	rows, err := tx.QueryContext(ctx, s.sql(selectScheduledRows), reportRows)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	n := 0
	for ; rows.Next(); n++ {
		var topic string
		var at int64
		if err := rows.Scan(&topic, &at); err != nil {
			return err
		}
		if at > r.now {
			r.topic(topic).ScheduledEvents++
		} else {
			r.pending(topic, 1, at) // due, and promoted at the next poll
		}
	}
	r.Estimated = r.Estimated || n == reportRows
	return rows.Err()
}

func (s *Store) reportDead(ctx context.Context, tx *sql.Tx, r *report) error {
	rows, err := tx.QueryContext(ctx, s.sql(selectDeadRows), reportRows)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	var sum int64
	for rows.Next() {
		var topic string
		var n int64
		if err := rows.Scan(&topic, &n); err != nil {
			return err
		}
		r.topic(topic).DeadEvents += n
		sum += n
	}
	r.Estimated = r.Estimated || sum == reportRows
	return rows.Err()
}
