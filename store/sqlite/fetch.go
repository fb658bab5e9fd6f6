package sqlite

import (
	"context"
	"database/sql"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// A fetch is one read transaction, so one snapshot, in two passes:
//
//  1. per topic, the lowest ids, read from the hot index alone. Ids in flight
//     are passed over here, in Go: a sorted list against a sorted list, 0.2 µs
//     an id. (As `NOT IN (SELECT value FROM json_each(…))` 10,000 ids cost 6 ms
//     for each topic.)
//  2. the rows of these ids, taking turns between the topics, until a bound is
//     met. A bound in bytes that is met early so costs each topic its share.
//
// maxTopics bounds the first pass where an application uses topics like keys;
// the next fetch goes on behind the last topic visited.
const maxTopics = 1000

// maxDue bounds Fetched.Due.
const maxDue = 256

// topicCursor is where the next fetch begins, if the last one could not visit
// every topic.
type topicCursor struct {
	sync.Mutex
	after string
	turn  int // whose turn it is to get the odd rows
}

// Fetch implements [relay.Store].
func (s *Store) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	var out relay.Fetched
	var seq int64
	before := s.seen()
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		out = relay.Fetched{}
		if seq, err = s.witness(ctx, tx, before); err != nil {
			return err
		}
		var ms int64
		if err = tx.QueryRowContext(ctx, selectNow).Scan(&ms); err != nil {
			return err
		}
		out.Now = fromMillis(ms)
		if out.Paused, err = s.paused(ctx, tx); err != nil {
			return err
		}
		if q.Lanes != nil && q.Lanes.Len() == 0 {
			return nil
		}
		if err = s.waiting(ctx, tx, q, ms, &out); err != nil {
			return err
		}
		return s.rows(ctx, tx, q, &out)
	})
	if err != nil {
		return relay.Fetched{}, s.explain("fetch from outbox", err)
	}
	out.Server = s.identity()
	switch {
	case q.Disarm:
		s.bell.disarm()
	case q.Arm > 0 && len(out.Rows) == 0 && len(out.Closed) == 0:
		s.bell.arm(q.Arm, seq)
		out.Armed = true
	}
	return out, nil
}

func (s *Store) rows(ctx context.Context, tx *sql.Tx, q relay.FetchQuery, out *relay.Fetched) error {
	topics, cut, err := s.visit(ctx, tx, q)
	if err != nil {
		return err
	}
	ids, more, err := s.lowest(ctx, tx, q, topics)
	if err != nil || len(ids) == 0 {
		out.More = cut
		return err
	}
	out.More = more || cut
	rows, err := tx.QueryContext(ctx, s.sql(selectRows), intList(ids))
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	var bytes int64
	for rows.Next() {
		var closed bool
		row, err := scanRow(rows, &closed)
		if err != nil {
			return err
		}
		if closed {
			out.Closed = append(out.Closed, relay.Row{Ref: row.Ref, Key: row.Key})
			continue
		}
		bytes += size(row)
		if q.Bytes > 0 && bytes > q.Bytes && len(out.Rows) > 0 {
			out.More = true
			break
		}
		out.Rows = append(out.Rows, row)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	// Taking turns mixed the topics; each of them is ascending already.
	slices.SortStableFunc(out.Rows, byTopic)
	slices.SortStableFunc(out.Closed, byTopic)
	return nil
}

// visit returns the topics to read and whether there were more than that.
func (s *Store) visit(ctx context.Context, tx *sql.Tx, q relay.FetchQuery) (topics []string, cut bool, err error) {
	if q.Topics != nil {
		return q.Topics, false, nil
	}
	s.topics.Lock()
	after := s.topics.after
	s.topics.Unlock()
	topics, err = readStrings(ctx, tx, s.sql(selectTopics), after, maxTopics)
	if err != nil {
		return nil, false, err
	}
	cut = len(topics) == maxTopics
	if after != "" {
		first, err := readStrings(ctx, tx, s.sql(selectTopics), "", maxTopics-len(topics))
		if err != nil {
			return nil, false, err
		}
		for _, t := range first {
			if t > after {
				break
			}
			topics = append(topics, t)
		}
		cut = len(topics) == maxTopics
	}
	s.topics.Lock()
	s.topics.after = ""
	if cut {
		s.topics.after = topics[len(topics)-1]
	}
	s.topics.turn++
	turn := s.topics.turn
	s.topics.Unlock()
	topics = slices.DeleteFunc(topics, func(t string) bool { return slices.Contains(q.Without, t) })
	if n := len(topics); n > 1 {
		topics = slices.Concat(topics[turn%n:], topics[:turn%n])
	}
	return topics, cut, nil
}

// lowest returns the lowest ids of each topic that are not in flight, at most
// q.Rows together, the topics taking turns.
func (s *Store) lowest(ctx context.Context, tx *sql.Tx, q relay.FetchQuery, topics []string) (ids []int64, more bool, err error) {
	skip := make([]int64, len(q.Skip))
	for i, id := range q.Skip {
		skip[i] = id.Int()
	}
	perTopic := q.PerTopic
	if perTopic <= 0 || perTopic > q.Rows {
		perTopic = q.Rows
	}
	found := make([][]int64, len(topics))
	after := make([]int64, len(topics))
	open := make([]int, 0, len(topics)) // topics that may have more
	for i, t := range topics {
		if floor, ok := q.Floors[t]; ok {
			after[i] = floor.Int() - 1
		}
		open = append(open, i)
	}
	// What a topic does not use of its share is shared out again.
	for left := q.Rows; left > 0 && len(open) > 0; {
		share := max(1, left/len(open))
		var still []int
		for n, i := range open {
			want := min(share, left, perTopic-len(found[i]))
			if want == 0 {
				more = true
				if len(found[i]) < perTopic {
					still = append(still, open[n:]...)
					break
				}
				continue
			}
			got, err := s.idsOf(ctx, tx, topics[i], after[i], skip, want)
			if err != nil {
				return nil, false, err
			}
			found[i] = append(found[i], got...)
			left -= len(got)
			if len(got) == want {
				after[i] = got[len(got)-1]
				still = append(still, i)
			}
		}
		open = still
	}
	for i := 0; ; i++ {
		n := len(ids)
		for t := range found {
			if i < len(found[t]) {
				ids = append(ids, found[t][i])
			}
		}
		if len(ids) == n {
			return ids, more || len(open) > 0, nil
		}
	}
}

// idsOf returns up to want ids of a topic above after that are not in skip,
// which is ascending.
func (s *Store) idsOf(ctx context.Context, tx *sql.Tx, topic string, after int64, skip []int64, want int) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, s.sql(selectIDs), topic, after)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	next, _ := slices.BinarySearch(skip, after)
	var ids []int64
	for len(ids) < want && rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		for next < len(skip) && skip[next] < id {
			next++
		}
		if next < len(skip) && skip[next] == id {
			continue
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// waiting finds what is due or will be: retries and scheduled events.
func (s *Store) waiting(ctx context.Context, tx *sql.Tx, q relay.FetchQuery, ms int64, out *relay.Fetched) error {
	var retry, available sql.NullInt64
	err := tx.QueryRowContext(ctx, s.sql(selectNext), ms).Scan(&retry, &available, &out.Scheduled)
	if err != nil {
		return err
	}
	for _, next := range []sql.NullInt64{retry, available} {
		if d := time.Duration(next.Int64-ms) * time.Millisecond; next.Valid && (out.Next == 0 || d < out.Next) {
			out.Next = d
		}
	}
	// What lies too far ahead was written by a clock that has since been set
	// back, and counts as due.
	far := ms + s.cfg.MaxBackoff.Milliseconds()
	for _, span := range [][2]int64{{math.MinInt64, ms}, {far, math.MaxInt64}} {
		if err := s.due(ctx, tx, q, span, out); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) due(ctx context.Context, tx *sql.Tx, q relay.FetchQuery, span [2]int64, out *relay.Fetched) error {
	rows, err := tx.QueryContext(ctx, s.sql(selectDue), span[0], span[1])
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for len(out.Due) < maxDue && rows.Next() {
		var k relay.Key
		if err := rows.Scan(&k.Topic, &k.Key); err != nil {
			return err
		}
		if q.Topics != nil && !slices.Contains(q.Topics, k.Topic) || slices.Contains(q.Without, k.Topic) {
			continue
		}
		if k.Key == "" && slices.Contains(out.Due, k) {
			continue
		}
		out.Due = append(out.Due, k)
	}
	return rows.Err()
}

func (s *Store) paused(ctx context.Context, tx *sql.Tx) ([]relay.Control, error) {
	return collect(ctx, tx, s.sql(selectControl), nil, func(rows *sql.Rows) (c relay.Control, err error) {
		var since int64
		err = rows.Scan(&c.Kind, &c.Name, &c.By, &c.Reason, &since)
		c.Since = fromMillis(since)
		return c, err
	})
}
