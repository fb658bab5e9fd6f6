package postgres

import (
	"context"
	"time"

	"github.com/postrider/postrider/relay"
)

// readBytes bounds the payloads of one ReadKeys, as the contract says.
const readBytes = 16 << 20

// readKeysSettings: as fetchSettings, but hash joins are wanted: the keys of a
// batch against the front of the queue.
var readKeysSettings = []setting{
	{"enable_seqscan", "off"},
	{"enable_bitmapscan", "off"},
	{"enable_nestloop", "on"},
	{"enable_mergejoin", "off"},
	{"max_parallel_workers_per_gather", "0"},
	{"jit", "off"},
	{"work_mem", "16MB"},
}

// ReadKeys implements relay.Store.
func (s *Store) ReadKeys(ctx context.Context, keys []relay.Key, limit int) ([]relay.KeyRead, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if s.opened.Load() == nil {
		return nil, errNotOpen
	}
	out := make([]relay.KeyRead, len(keys))
	for i, k := range keys {
		out[i].Key = k
	}
	allowed := make([]int, len(keys)) // rows before the bytes ran out
	var d decoder
	st := s.readKeysStatement(keys, limit)
	st.row = func(v [][]byte) error {
		place := int(int4Value(v[1])) - 1
		if place < 0 || place >= len(out) {
			return errResult
		}
		k := &out[place]
		if int4Value(v[0]) == 1 {
			k.Rows = append(k.Rows, relay.Row{})
			return d.row(v[7:], &k.Rows[len(k.Rows)-1])
		}
		allowed[place] = int(int4Value(v[2]))
		k.Open, k.Blocked = boolValue(v[3]), boolValue(v[4])
		k.Wait = time.Duration(int8Value(v[5])) * time.Microsecond
		k.More = boolValue(v[6])
		return nil
	}
	if err := s.run(ctx, readKeysSettings, st); err != nil {
		return nil, wrap("read closed keys", err)
	}
	for i := range out {
		k := &out[i]
		if err := ascending(k.Rows); err != nil {
			return nil, wrap("read closed keys", err)
		}
		if len(k.Rows) < allowed[i] {
			k.More = true
		}
		if k.Open {
			k.Blocked = false
		}
		if k.Key.Key == "" && len(k.Rows) > 0 {
			k.Wait = 0
		}
	}
	return out, nil
}

func (s *Store) readKeysStatement(keys []relay.Key, limit int) statement {
	return statement{sql: s.sql.readKeys, params: []param{
		textArray(len(keys), func(i int) string { return keys[i].Topic }),
		textArray(len(keys), func(i int) string { return keys[i].Key }),
		int4Param(int32(min(max(limit, 1), 1<<20))),
		int8Param(s.cfg.MaxBackoff.Microseconds()),
		int8Param(readBytes),
	}}
}

// HeldKeys implements relay.Store.
func (s *Store) HeldKeys(ctx context.Context, after relay.Key, limit int) ([]relay.Key, bool, error) {
	if s.opened.Load() == nil {
		return nil, false, errNotOpen
	}
	limit = max(limit, 1)
	var keys []relay.Key
	st := statement{
		sql: s.sql.heldKeys,
		params: []param{
			textParam(after.Topic), textParam(after.Key),
			int4Param(int32(min(limit, 1<<20))), int8Param(s.cfg.MaxBackoff.Microseconds()),
		},
		row: func(v [][]byte) error {
			keys = append(keys, relay.Key{Topic: string(v[0]), Key: string(v[1])})
			return nil
		},
	}
	if err := s.run(ctx, fetchSettings, st); err != nil {
		return nil, false, wrap("list closed keys", err)
	}
	if len(keys) > limit {
		return keys[:limit], true, nil
	}
	return keys, false, nil
}
