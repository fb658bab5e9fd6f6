package memory

import (
	"cmp"
	"slices"
	"time"

	"github.com/postrider/postrider/relay"
)

// maxDue bounds the due keys of one fetch.
const maxDue = 256

// fetch reads one snapshot: the candidates are the ready rows that the query
// asks for, ranked within their topic; the bounds cut them in the order of
// rank, so that no topic waits for another's backlog.
func (d *Database) fetch(q relay.FetchQuery) relay.Fetched {
	now := time.Now()
	out := relay.Fetched{Server: d.identity, Now: now, Paused: slices.Clone(d.tables.controls)}
	heads := d.tables.heads()

	skip := make(map[relay.RowID]bool, len(q.Skip))
	for _, id := range q.Skip {
		skip[id] = true
	}
	type candidate struct {
		*record
		rank int
	}
	var candidates []candidate
	ranks := map[string]int{}
	for _, r := range d.tables.rows {
		if !r.ready() || skip[r.ID] || !wanted(q, r) || belowFloor(q, r) {
			continue
		}
		rank := ranks[r.Topic]
		ranks[r.Topic]++
		if q.PerTopic > 0 && rank >= q.PerTopic {
			out.More = true
			continue
		}
		candidates = append(candidates, candidate{r, rank})
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.rank, b.rank) })

	var bytes int64
	for i, c := range candidates {
		bytes += c.size()
		if i > 0 && (i >= q.Rows || q.Bytes > 0 && bytes > q.Bytes) {
			out.More = true
			break
		}
		if heads[c.Row.Key] != nil {
			out.Closed = append(out.Closed, relay.Row{Ref: c.Ref, Key: c.Row.Key})
		} else {
			out.Rows = append(out.Rows, c.copy())
		}
	}

	out.Due, out.Next = due(q, d.tables.waiting(), now)
	for _, r := range d.tables.rows {
		if !r.scheduled() {
			continue
		}
		if wait := r.Available.Sub(now); wait <= 0 {
			out.Scheduled = true
		} else {
			out.Next = sooner(out.Next, wait)
		}
	}
	d.bell(q, &out, len(candidates) == 0)
	return out
}

// belowFloor reports whether the caller knows that the row is not there.
func belowFloor(q relay.FetchQuery, r *record) bool {
	floor, ok := q.Floors[r.Topic]
	if !ok {
		return q.Floors != nil && r.ID.Int() <= q.High.Int()
	}
	return r.ID.Int() < floor.Int()
}

// wanted: of a lane and a topic that the query asks for.
func wanted(q relay.FetchQuery, r *record) bool {
	if q.Lanes != nil && !q.Lanes.Has(r.lane()) {
		return false
	}
	if q.Topics != nil {
		return slices.Contains(q.Topics, r.Topic)
	}
	return !slices.Contains(q.Without, r.Topic)
}

// heads returns the lowest held row of each closed key. The empty key is never
// closed.
func (t *tables) heads() map[relay.Key]*record {
	heads := map[relay.Key]*record{}
	for _, r := range t.rows {
		if r.held != "" && r.Row.Key.Key != "" && heads[r.Row.Key] == nil {
			heads[r.Row.Key] = r
		}
	}
	return heads
}

// waiting returns the rows whose retry_at is what their key waits for: the
// heads, and each held row without a key.
func (t *tables) waiting() []*record {
	heads := t.heads()
	var out []*record
	for _, r := range t.rows {
		if r.held == relay.HeldRetry && (r.Row.Key.Key == "" || heads[r.Row.Key] == r) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b *record) int { return a.retryAt.Compare(b.retryAt) })
	return out
}

// due returns the keys whose turn has come, the earliest first, and how long
// until the next one's.
func due(q relay.FetchQuery, waiting []*record, now time.Time) (keys []relay.Key, next time.Duration) {
	for _, r := range waiting {
		if !wanted(q, r) {
			continue
		}
		if wait := r.retryAt.Sub(now); wait > 0 {
			next = sooner(next, wait)
		} else if len(keys) < maxDue && !slices.Contains(keys, r.Row.Key) {
			keys = append(keys, r.Row.Key)
		}
	}
	return keys, next
}

// sooner is the lesser of two waits, where 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}
