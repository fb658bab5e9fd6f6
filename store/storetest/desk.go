package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// The helpers of the cases: each does one thing and fails the test if it does not
// work.

// event makes an event whose payload says which it is.
func event(topic, key string, n int) relay.Row {
	return relay.Row{Key: relay.Key{Topic: topic, Key: key}, Payload: fmt.Appendf(nil, "%s/%s/%d", topic, key, n)}
}

// events makes n of them.
func events(topic, key string, n int) []relay.Row {
	out := make([]relay.Row, n)
	for i := range out {
		out[i] = event(topic, key, i)
	}
	return out
}

// write commits events in one transaction.
func (d *desk) write(t testing.TB, rows ...relay.Row) []relay.Row {
	t.Helper()
	tx := d.Begin(t)
	out := tx.Insert(t, rows...)
	tx.Commit(t)
	return out
}

// fetch with bounds that cut nothing, unless q has some.
func (d *desk) fetch(t testing.TB, q relay.FetchQuery) relay.Fetched {
	t.Helper()
	if q.Rows == 0 {
		q.Rows = 10000
	}
	if q.Bytes == 0 {
		q.Bytes = 64 << 20
	}
	f, err := d.Fetch(t.Context(), q)
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	return f
}

func (d *desk) settle(t testing.TB, s relay.Settlement) relay.Settled {
	t.Helper()
	out, err := d.Settle(t.Context(), s)
	if err != nil {
		t.Fatalf("settle: %v", err)
	}
	if out.History != nil {
		t.Errorf("history: %v", out.History)
	}
	return out
}

// mark sets one row's state.
func (d *desk) mark(t testing.TB, r relay.Row, held relay.Held, after time.Duration) {
	t.Helper()
	m := relay.Mark{Ref: r.Ref, Held: held, After: after, Attempts: 1, Error: "refused", Keep: held == relay.HeldBehind}
	if out := d.settle(t, relay.Settlement{Marks: []relay.Mark{m}}); out.Missed != 0 {
		t.Fatalf("mark %s: missed", held)
	}
}

func (d *desk) readKey(t testing.TB, topic, key string, limit int) relay.KeyRead {
	t.Helper()
	out, err := d.ReadKeys(t.Context(), []relay.Key{{Topic: topic, Key: key}}, limit)
	if err != nil || len(out) != 1 {
		t.Fatalf("read keys: %d results, %v", len(out), err)
	}
	return out[0]
}

func (d *desk) heldKeys(t testing.TB) []relay.Key {
	t.Helper()
	keys, more, err := d.HeldKeys(t.Context(), relay.Key{}, 1000)
	if err != nil || more {
		t.Fatalf("held keys: more %v, %v", more, err)
	}
	return keys
}

func (d *desk) leaser(t testing.TB) relay.Leaser {
	t.Helper()
	l, ok := d.Store.(relay.Leaser)
	if !ok {
		t.Skip("this store is no relay.Leaser")
	}
	return l
}

func refs(rows []relay.Row) []relay.Ref {
	out := make([]relay.Ref, len(rows))
	for i := range rows {
		out[i] = rows[i].Ref
	}
	return out
}

func ids(rows []relay.Row) []relay.RowID {
	out := make([]relay.RowID, len(rows))
	for i := range rows {
		out[i] = rows[i].ID
	}
	return out
}

// same checks that got is want, event by event, in order.
func same(t testing.TB, what string, got, want []relay.Row) {
	t.Helper()
	if g, w := names(got), names(want); fmt.Sprint(g) != fmt.Sprint(w) {
		t.Errorf("%s: got %v, want %v", what, g, w)
	}
}

// names are the payloads, which say who is who.
func names(rows []relay.Row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = fmt.Sprintf("%s:%.40q", r.Topic, r.Payload)
	}
	return out
}

// ofTopic filters rows.
func ofTopic(rows []relay.Row, topic string) (out []relay.Row) {
	for _, r := range rows {
		if r.Topic == topic {
			out = append(out, r)
		}
	}
	return out
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// keyOfLane finds a key of the lane.
func keyOfLane(lane uint8) string {
	for i := 0; ; i++ {
		if key := fmt.Sprintf("key %d", i); relay.LaneOf(key, outbox.ID{}) == lane {
			return key
		}
	}
}
