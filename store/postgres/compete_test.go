package postgres

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// The claim must not take more than its limit under any plan: a semi-join ran the
// locking sub-query once per row and took the whole table.
func TestCompete_S14_NeverMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{})
	for _, hostile := range []setting{
		{"enable_hashjoin", "on"},
		{"enable_mergejoin", "on"},
		{"enable_seqscan", "on"},
		{"enable_bitmapscan", "on"},
		{"enable_material", "off"},
		{"enable_nestloop", "off"},
		{"enable_sort", "off"},
		{"enable_indexscan", "off"},
		{"plan_cache_mode", "force_generic_plan"},
	} {
		t.Run(hostile.name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, option{in: d})
			s.insert(t, 1)
			s.Exec(t, `ANALYZE {{outbox}}`)
			s.insert(t, 19)
			s.insert(t, 180)
			store := s.open(t)
			settings := append(slices.Clip(settleSettings), hostile)
			for _, limit := range []int32{1, 10} {
				for range 20 {
					n := 0
					err := store.run(t.Context(), settings, statement{
						sql: store.sql.compete, params: []param{int4Param(limit), int8Param(1 << 40)},
						row: func([][]byte) error { n++; return nil },
					})
					if err != nil || n != int(limit) {
						t.Fatalf("claimed %d of %d, %v", n, limit, err)
					}
				}
			}
		})
	}
}

// A relay that is stopped in the middle of a claim must let its rows go.
func TestCompete_APausedRelayLetsGo(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{change: func(c *Config) { c.PublishTimeout = 200 * time.Millisecond }})
	s.insert(t, 3)
	paused, other := s.open(t), s.open(t)
	n, err := paused.Compete(t.Context(), 10, func(ctx context.Context, rows []relay.Row) relay.Settlement {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("publish is not bounded in time")
		}
		eventually(t, "another relay claims the rows", func() bool {
			n, err := other.Compete(t.Context(), 10, func(_ context.Context, rows []relay.Row) relay.Settlement {
				return relay.Settlement{Delivered: refsOf(rows)}
			})
			if err != nil {
				t.Error(err)
			}
			return n == 3
		})
		return relay.Settlement{Delivered: refsOf(rows)}
	})
	if n != 3 || err == nil {
		t.Errorf("the paused relay claimed %d and settled: %v", n, err)
	}
	if n, err := paused.Compete(t.Context(), 10, nil); n != 0 || err != nil {
		t.Errorf("it works again: %d, %v", n, err)
	}
}

// S24: a topic that has a backlog leaves room for the others in each claim.
func TestCompete_FairBetweenTopics(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	for topic, n := range map[string]int{"deep": 500, "a": 2, "b": 2} {
		s.Exec(t, `INSERT INTO {{outbox}} (topic, payload) SELECT $1::text, '\x01' FROM generate_series(1, $2::int)`, topic, n)
	}
	got := map[string]int{}
	_, err := s.open(t).Compete(t.Context(), 30, func(_ context.Context, rows []relay.Row) relay.Settlement {
		for _, r := range rows {
			got[r.Topic]++
		}
		return relay.Settlement{}
	})
	if err != nil || got["a"] != 2 || got["b"] != 2 || got["deep"] < 10 {
		t.Errorf("claimed %s, %v", fmt.Sprint(got), err)
	}
}
