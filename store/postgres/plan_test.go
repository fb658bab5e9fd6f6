package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// The plans that these tests forbid were all seen: each made a relay ten to a
// thousand times slower at some size of the table or age of its statistics.

// plan is a node of EXPLAIN (FORMAT JSON).
type plan struct {
	NodeType string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Index    string  `json:"Index Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Hit      int     `json:"Shared Hit Blocks"`
	Read     int     `json:"Shared Read Blocks"`
	Plans    []plan  `json:"Plans"`
}

func (p plan) walk(visit func(node plan)) {
	visit(p)
	for _, child := range p.Plans {
		child.walk(visit)
	}
}

// buffers is what the statement touched, cached or not.
func (p plan) buffers() int { return p.Hit + p.Read }

// explain runs a statement of the store under its settings, rolls it back and
// returns its plan.
func (s *Store) explain(t testing.TB, settings []setting, st statement) plan {
	t.Helper()
	var text []byte
	st.sql = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) " + st.sql
	st.row = func(v [][]byte) error { text = append(text, v[0]...); return nil }
	conn, err := s.acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	err = pipeline(t.Context(), conn.Conn().PgConn(), []statement{begin, s.configure(settings), st, {sql: "ROLLBACK"}})
	if err != nil {
		t.Fatalf("explain %.100s: %v", st.sql, err)
	}
	var out []struct{ Plan plan }
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("explain: %v in %.300s", err, text)
	}
	return out[0].Plan
}

func (s *Store) explainFetch(t testing.TB, q relay.FetchQuery) plan {
	t.Helper()
	open := s.opened.Load()
	return s.explain(t, fetchSettings, statement{sql: open.fetch[fetchKind(q)], params: s.fetchParams(q, open)})
}

// forbid fails the test for a plan that reads a full table or sorts its rows.
func forbid(t testing.TB, name string, s *setup, p plan, limit float64) {
	t.Helper()
	table := s.names.Table
	p.walk(func(n plan) {
		if n.NodeType == "Seq Scan" && (n.Relation == table || strings.HasPrefix(n.Relation, s.names.Prefix+"_delivered")) {
			t.Errorf("%s: Seq Scan of %s", name, n.Relation)
		}
		if strings.Contains(n.NodeType, "Bitmap") {
			t.Errorf("%s: %s", name, n.NodeType)
		}
		if strings.Contains(n.NodeType, "Sort") && n.Rows*max(n.Loops, 1) > limit {
			t.Errorf("%s: a Sort of %.0f rows", name, n.Rows)
		}
		if strings.Contains(n.NodeType, "Index") && n.Relation == table && n.Rows*max(n.Loops, 1) > 10*limit {
			t.Errorf("%s: %.0f rows of index %s", name, n.Rows*n.Loops, n.Index)
		}
	})
}

// scale is the number of rows of a large table: a tenth of the recipes', and the
// recipes' in a soak.
func scale(rows int) int {
	if os.Getenv("POSTRIDER_SOAK") != "" {
		return rows
	}
	return rows / 10
}

// fillMixed writes rows of which share percent are pending in topic "t" and the
// others held, so that both states have an index of that size.
func (s *setup) fillMixed(t testing.TB, rows, percent int) {
	t.Helper()
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload, held, retry_at)
		SELECT 't' || i % 5, 'k' || i % 10007, '\x01', CASE WHEN i % 100 >= $2::int THEN 'retry' END,
			CASE WHEN i % 100 >= $2 THEN now() + interval '1 hour' * (1 + i % 5) END
		FROM generate_series(1, $1::int) i`, rows, percent)
}

func TestS22_HotQueriesUseTheirIndexes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{})
	for _, rows := range []int{0, 1, 1000, scale(1000000)} {
		for _, percent := range []int{1, 99} {
			for _, statistics := range []string{"fresh", "none", "of an empty table", "of a full table"} {
				t.Run(fmt.Sprintf("%d rows, %d percent pending, statistics %s", rows, percent, statistics), func(t *testing.T) {
					s := newSetup(t, option{in: d})
					s.Exec(t, `ALTER TABLE {{outbox}} SET (autovacuum_enabled = off)`)
					switch statistics {
					case "of an empty table":
						s.Exec(t, `ANALYZE {{outbox}}`)
					case "of a full table":
						s.fillMixed(t, 50000, 100-percent)
						s.Exec(t, `ANALYZE {{outbox}}`)
						s.Exec(t, `DELETE FROM {{outbox}}`)
						s.Exec(t, `VACUUM {{outbox}}`)
						s.Exec(t, `UPDATE pg_class SET reltuples = 50000, relpages = 1000 WHERE oid = '`+strings.ReplaceAll(s.names.Expand(outbox.Postgres, "{{outbox}}"), "'", "''")+`'::regclass`)
					}
					s.fillMixed(t, rows, percent)
					if statistics == "fresh" {
						s.Exec(t, `ANALYZE {{outbox}}`)
					}
					s.forbidAll(t, s.open(t))
				})
			}
		}
	}
}

// forbidAll explains every hot statement.
func (s *setup) forbidAll(t testing.TB, store *Store) {
	t.Helper()
	const batch = 500
	f, err := store.Fetch(t.Context(), relay.FetchQuery{Rows: batch, Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	rows := slices.Concat(f.Rows, f.Closed)
	floors := map[string]relay.RowID{"t1": relay.IntID(1), "t2": relay.IntID(5)}
	lanes := relay.Lanes{1, 2, 3, 4}
	skip := make([]relay.RowID, 0, len(f.Rows))
	for i := range 1000 {
		skip = append(skip, relay.IntID(int64(i*7)))
	}
	for _, v := range []struct {
		name string
		q    relay.FetchQuery
	}{
		{"fetch", relay.FetchQuery{}},
		{"fetch with floors", relay.FetchQuery{Floors: floors, High: relay.IntID(10)}},
		{"fetch of topics", relay.FetchQuery{Topics: []string{"t1", "t3", "x"}}},
		{"fetch without topics", relay.FetchQuery{Without: []string{"t1", "t3", "x"}}},
	} {
		v.q.Rows, v.q.Bytes, v.q.Skip = batch, 1<<20, skip
		forbid(t, v.name, s, store.explainFetch(t, v.q), batch)
		v.q.Lanes = &lanes
		p := store.explainFetch(t, v.q)
		p.walk(func(n plan) { // other lanes' rows are read and left out
			if n.NodeType == "Seq Scan" && n.Relation == s.names.Table {
				t.Errorf("%s of lanes: Seq Scan", v.name)
			}
		})
	}
	keys := []relay.Key{{Topic: "t1"}}
	for i := range 999 {
		keys = append(keys, relay.Key{Topic: fmt.Sprintf("t%d", i%5), Key: fmt.Sprintf("k%d", i)})
	}
	p := store.explain(t, readKeysSettings, store.readKeysStatement(keys, 10))
	p.walk(func(n plan) {
		if n.NodeType == "Seq Scan" && n.Relation == s.names.Table {
			t.Error("read keys: Seq Scan")
		}
		// The hot rows below the held ones are read once per topic, not per key.
		if n.Index == s.names.Prefix+"_hot" && n.Loops > 5 {
			t.Errorf("read keys: %.0f scans of %s for 5 topics", n.Loops, n.Index)
		}
	})
	refs := make([]relay.Ref, 0, len(rows))
	var marks []relay.Mark
	var deaths []relay.Death
	for _, r := range rows {
		refs = append(refs, r.Ref)
		marks = append(marks, relay.Mark{Ref: r.Ref, Held: relay.HeldBehind})
		deaths = append(deaths, relay.Death{Ref: r.Ref})
	}
	for name, settlement := range map[string]relay.Settlement{
		"settle": {Delivered: refs}, "mark": {Marks: marks}, "bury": {Dead: deaths},
	} {
		for _, history := range []bool{true, false} {
			list, _ := store.settleStatements(settlement, history, true)
			for _, st := range list {
				forbid(t, name, s, store.explain(t, settleSettings, statement{sql: st.sql, params: st.params}), batch)
			}
		}
	}
	limit := int4Param(batch)
	forbid(t, "promote", s, store.explain(t, settleSettings, statement{sql: store.sql.promote, params: []param{limit}}), batch)
	forbid(t, "compete", s, store.explain(t, settleSettings, statement{sql: store.sql.compete, params: []param{limit, int8Param(1 << 40)}}), 2*batch)
	forbid(t, "ring", s, store.explain(t, nil, statement{sql: store.sql.ringState, params: []param{int8Param(1)}}), batch)
	forbid(t, "report", s, store.explain(t, fetchSettings, statement{sql: store.sql.report, params: []param{limit}}), 5*batch)
}

func TestS21_DeadRowsUnderAHeldSnapshot(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	s.Exec(t, `ALTER TABLE {{outbox}} SET (autovacuum_enabled = off)`)
	snapshot, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Rollback()
	if _, err := snapshot.Exec(`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.Exec(`SELECT count(*) FROM pg_class`); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 't', 'k' || i % 1000, '\x01' FROM generate_series(1, $1::int) i`, scale(3000000))
	s.Exec(t, `DELETE FROM {{outbox}}`)
	s.Exec(t, `VACUUM {{outbox}}`)
	first := s.Count(t, `INSERT INTO {{outbox}} (topic, key, payload) VALUES ('t', 'k1', '\x01') RETURNING id`)
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 't', 'k' || i, '\x01' FROM generate_series(1, 9) i`)
	s.Exec(t, `ANALYZE {{outbox}}`)
	q := relay.FetchQuery{
		Rows: 10, Bytes: 1 << 20, Floors: map[string]relay.RowID{"t": relay.IntID(int64(first))}, High: relay.IntID(int64(first + 9)),
	}
	f, err := store.Fetch(t.Context(), q)
	if err != nil || len(f.Rows) != 10 {
		t.Fatalf("%d rows of 10, %v", len(f.Rows), err)
	}
	if n := store.explainFetch(t, q).buffers(); n >= 200 {
		t.Errorf("%d buffers with floors", n)
	}
	q.Floors = nil
	if n := store.explainFetch(t, q).buffers(); n < 1000 {
		t.Errorf("%d buffers without floors: the dead rows are not there, so this proves nothing", n)
	}
}

func TestS24_AnotherTopicsBacklogCostsNothing(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 'a', 'k' || i % 1000, '\x01' FROM generate_series(1, $1::int) i`, scale(1000000))
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 'b', 'k' || i, '\x01' FROM generate_series(1, 10) i`)
	for _, fresh := range []bool{false, true} {
		if fresh {
			s.Exec(t, `VACUUM ANALYZE {{outbox}}`)
		}
		for name, q := range map[string]relay.FetchQuery{"topics": {Topics: []string{"b"}}, "without": {Without: []string{"a"}}} {
			q.Rows, q.Bytes = 4000, 1<<20
			f, err := store.Fetch(t.Context(), q)
			if err != nil || len(f.Rows) != 10 {
				t.Fatalf("%s: %d rows of 10, %v", name, len(f.Rows), err)
			}
			if n := store.explainFetch(t, q).buffers(); n >= 100 {
				t.Errorf("%s, fresh statistics %v: %d buffers", name, fresh, n)
			}
		}
	}
}

func TestS18_HeldRowsBesideHealthyOnes(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload, held) SELECT 't', 'held' || i, '\x01', 'blocked' FROM generate_series(1, $1::int) i`, scale(1000000))
	s.Exec(t, `INSERT INTO {{outbox}} (topic, key, payload) SELECT 't', 'k' || i, '\x01' FROM generate_series(1, 100) i`)
	for _, fresh := range []bool{false, true} {
		if fresh {
			s.Exec(t, `VACUUM ANALYZE {{outbox}}`)
		}
		q := relay.FetchQuery{Rows: 4000, Bytes: 1 << 20}
		f, err := store.Fetch(t.Context(), q)
		if err != nil || len(f.Rows) != 100 {
			t.Fatalf("%d rows of 100, %v", len(f.Rows), err)
		}
		p := store.explainFetch(t, q)
		if n := p.buffers(); n > 1000 { // four pages for the look-up of each key
			t.Errorf("fresh statistics %v: %d buffers for 100 rows", fresh, n)
		}
		forbid(t, "fetch", s, p, 4000)
	}
}
