package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// fetchSettings force the plan that queryFetch describes. Statistics of a table
// that is empty one second and full the next say nothing, and JIT would compile
// for longer than the query runs. Nothing durable is written: an armed doorbell
// needs no disk.
var fetchSettings = []setting{
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"enable_hashjoin", "off"},
	{"enable_mergejoin", "off"},
	{"enable_memoize", "off"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},
	{"work_mem", "16MB"}, // the hashed exclusion must fit under any configuration
	{"synchronous_commit", "off"},
}

// Fetch implements relay.Store.
func (s *Store) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	open := s.opened.Load()
	if open == nil {
		return relay.Fetched{}, errNotOpen
	}
	reader := fetchReader{limit: q.Rows}
	st := statement{sql: open.fetch[fetchKind(q)], params: s.fetchParams(q, open), row: reader.read}
	if err := s.run(ctx, fetchSettings, st); err != nil {
		return relay.Fetched{}, wrap("fetch", err)
	}
	if err := reader.finish(s, q); err != nil {
		return relay.Fetched{}, wrap("fetch", err)
	}
	return reader.out, nil
}

func (s *Store) fetchParams(q relay.FetchQuery, open *opened) []param {
	topics, floors := q.Topics, func(int) int64 { return 0 }
	if q.Topics != nil {
		floors = func(i int) int64 { return q.Floors[q.Topics[i]].Int() }
	} else if q.Floors != nil {
		topics = make([]string, 0, len(q.Floors))
		for topic := range q.Floors {
			topics = append(topics, topic)
		}
		floors = func(i int) int64 { return q.Floors[topics[i]].Int() }
	}
	perTopic := q.PerTopic
	if perTopic <= 0 {
		perTopic = q.Rows
	}
	bytes := q.Bytes
	if bytes <= 0 {
		bytes = math.MaxInt64 / 2
	}
	var arm int64
	switch {
	case !open.bell:
	case q.Disarm:
		arm = -1
	case q.Arm > 0:
		arm = max(q.Arm.Milliseconds(), 1)
	}
	lanes := relay.AllLanes
	if q.Lanes != nil {
		lanes = *q.Lanes
	}
	return []param{
		int8Array(len(q.Skip), func(i int) int64 { return q.Skip[i].Int() }),
		int8Param(int64(max(q.Rows, 1))),
		int8Param(bytes),
		int8Param(int64(max(perTopic, 1))),
		int8Param(arm),
		byteaParam(laneBits(lanes)),
		texts(topics),
		int8Array(len(topics), floors),
		int8Param(q.High.Int()),
		texts(q.Without),
		int8Param(s.cfg.MaxBackoff.Microseconds()),
	}
}

// laneBits is the set as get_bit numbers bits: lane 0 is the lowest of byte 0.
func laneBits(l relay.Lanes) []byte {
	b := make([]byte, 0, 32)
	for _, w := range l {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// fetchReader collects the rows of queryFetch.
type fetchReader struct {
	limit    int
	out      relay.Fetched
	decoder  decoder
	received int64
	scanned  int64
	status   []byte
}

func (f *fetchReader) read(v [][]byte) error {
	switch int4Value(v[0]) {
	case 3:
		f.scanned = int8Value(v[1])
		f.out.Now = timestamp(v[12])
		f.status = append(f.status, v[16]...)
		return nil
	case 2:
		f.received++
		f.out.Closed = append(f.out.Closed, relay.Row{})
		return f.decoder.row(v[1:], &f.out.Closed[len(f.out.Closed)-1])
	default:
		f.received++
		if f.out.Rows == nil {
			f.out.Rows = make([]relay.Row, 0, min(f.limit, 4096))
		}
		f.out.Rows = append(f.out.Rows, relay.Row{})
		return f.decoder.row(v[1:], &f.out.Rows[len(f.out.Rows)-1])
	}
}

// fetchStatusRow is what fetchStatus builds.
type fetchStatusRow struct {
	Server    string      `json:"server"`
	Primary   bool        `json:"primary"`
	Cut       bool        `json:"cut"`
	Due       [][2]string `json:"due"`
	Scheduled bool        `json:"scheduled"`
	Next      *int64      `json:"next"`
	Armed     *bool       `json:"armed"`
	Paused    []struct {
		Kind, Name, By, Reason string
		Since                  int64
	} `json:"paused"`
}

func (f *fetchReader) finish(s *Store, q relay.FetchQuery) error {
	var st fetchStatusRow
	if err := json.Unmarshal(f.status, &st); err != nil {
		return fmt.Errorf("status: %w", errResult)
	}
	if !st.Primary {
		s.distrust()
		return errNotPrimary
	}
	if err := ascending(f.out.Rows); err != nil {
		return err
	}
	if err := ascending(f.out.Closed); err != nil {
		return err
	}
	f.out.More = f.received < f.scanned || (st.Cut && f.received > 0)
	for _, key := range st.Due {
		f.out.Due = append(f.out.Due, relay.Key{Topic: key[0], Key: key[1]})
	}
	f.out.Scheduled = st.Scheduled
	if st.Next != nil {
		f.out.Next = max(time.Duration(*st.Next)*time.Microsecond, time.Microsecond)
	}
	for _, c := range st.Paused {
		f.out.Paused = append(f.out.Paused, relay.Control{
			Kind: c.Kind, Name: c.Name, By: c.By, Reason: c.Reason, Since: time.UnixMicro(c.Since).UTC(),
		})
	}
	f.out.Server = st.Server
	f.out.Armed = st.Armed != nil && *st.Armed
	return nil
}

// ascending checks the order that the whole relay rests on. It holds by the
// shape of the plan and not by an ORDER BY, so a server that plans the
// statement in an unforeseen way must be noticed here and not at a consumer.
func ascending(rows []relay.Row) error {
	last := make(map[string]int64, 8)
	topic, high := "", int64(math.MinInt64)
	for i := range rows {
		r := &rows[i]
		if r.Topic != topic {
			last[topic] = high
			topic, high = r.Topic, math.MinInt64
			if h, ok := last[topic]; ok {
				high = h
			}
		}
		if r.ID.Int() <= high {
			return fmt.Errorf("rows of topic %q out of order: %w", r.Topic, errResult)
		}
		high = r.ID.Int()
	}
	return nil
}

// fetchKind numbers the variants of the statement.
func fetchKind(q relay.FetchQuery) int {
	kind := 0
	switch {
	case q.Topics != nil:
		kind = 2
	case q.Floors != nil:
		kind = 1
	case q.Peek:
		kind = 3
	}
	if q.Lanes != nil {
		kind += 4
	}
	return kind
}

// fetchSQL makes the variants of queryFetch and queryPeek, once per Open.
func fetchSQL(names outbox.Names, identity string) (out [8]string) {
	for kind := range out {
		text, topics := queryFetch, []string{namesAll, namesKnown, namesGiven, namesAll}[kind%4]
		lanes, only := "", ""
		if kind >= 4 {
			lanes = inLanes
		}
		switch kind % 4 {
		case 2:
			only = "AND o.topic IN (SELECT unnest($7::text[]))"
		case 3:
			text = queryPeek
		}
		sql := strings.NewReplacer("/names/", topics, "/closed/", closedKey, "/status/", fetchStatus, "/sent/", fetchSent).Replace(text)
		sql = strings.ReplaceAll(sql, "/paused/", fetchPaused)
		sql = strings.NewReplacer("/hot/", hotRows, "/columns/", rowColumns, "/size/", rowSize,
			"/lanes/", lanes, "/only/", only, "/identity/", identity, "/bell/", literal(names.Expand(outbox.Postgres, "{{bell}}"))).Replace(sql)
		out[kind] = names.Expand(outbox.Postgres, sql)
	}
	return out
}
