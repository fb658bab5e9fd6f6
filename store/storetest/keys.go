package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

var keyCases = []testcase{
	{"rows of a closed key are not among Rows: those not held yet come in Closed", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "a", 1), event("t", "a", 2), event("t", "b", 1), event("u", "a", 1), event("t", "a", 3))
		d.mark(t, rows[0], relay.HeldRetry, time.Hour)
		f := d.fetch(t, relay.FetchQuery{})
		same(t, "rows of t", ofTopic(f.Rows, "t"), rows[2:3])
		same(t, "rows of u: a key is of its topic", ofTopic(f.Rows, "u"), rows[3:4])
		if got := ids(f.Closed); !slices.Equal(got, []relay.RowID{rows[1].ID, rows[4].ID}) {
			t.Fatalf("closed %v", got)
		}
		if f.Closed[0].EventID != rows[1].EventID || f.Closed[0].Key != rows[1].Key {
			t.Errorf("closed row %+v", f.Closed[0])
		}
		for _, r := range f.Closed {
			d.mark(t, r, relay.HeldBehind, 0)
		}
		f = d.fetch(t, relay.FetchQuery{})
		if len(f.Closed) != 0 || len(f.Rows) != 2 {
			t.Errorf("after marking: closed %d, rows %d", len(f.Closed), len(f.Rows))
		}
	}},
	{"rows with an empty key are never of a closed key", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "", 3)...)
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		f := d.fetch(t, relay.FetchQuery{})
		same(t, "rows", f.Rows, rows[1:])
		if len(f.Closed) != 0 {
			t.Errorf("closed: %d", len(f.Closed))
		}
	}},
	{"ReadKeys returns a key's held rows in order, up to limit", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 5)...)
		d.mark(t, rows[0], relay.HeldRetry, 0)
		for _, r := range rows[1:] {
			d.mark(t, r, relay.HeldBehind, 0)
		}
		k := d.readKey(t, "t", "k", 3)
		same(t, "rows", k.Rows, rows[:3])
		if !k.More || k.Open || k.Blocked || k.Wait != 0 {
			t.Errorf("%+v", k)
		}
		if k := d.readKey(t, "t", "k", 5); len(k.Rows) != 5 || k.More {
			t.Errorf("limit 5: %d rows, more %v", len(k.Rows), k.More)
		}
		r := d.readKey(t, "t", "k", 1).Rows[0]
		if r.Attempts != 1 || r.LastError != "refused" || r.EventID != rows[0].EventID {
			t.Errorf("row %+v", r)
		}
	}},
	{"nothing before the lowest row's retry_at", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 2)...)
		d.mark(t, rows[1], relay.HeldBehind, 0)
		d.mark(t, rows[0], relay.HeldRetry, time.Hour)
		k := d.readKey(t, "t", "k", 9)
		if len(k.Rows) != 0 || k.Open || k.Blocked || k.Wait < 59*time.Minute || k.Wait > time.Hour {
			t.Errorf("%+v", k)
		}
	}},
	{"a retry_at further ahead than the relay's longest wait counts as due", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "far", 1), event("t", "near", 1), event("t", "", 1))
		d.mark(t, rows[0], relay.HeldRetry, relay.LongestWait+time.Minute)
		d.mark(t, rows[1], relay.HeldRetry, relay.LongestWait-time.Minute)
		d.mark(t, rows[2], relay.HeldRetry, relay.LongestWait+time.Minute)
		same(t, "rows of far", d.readKey(t, "t", "far", 9).Rows, rows[:1])
		same(t, "rows without a key", d.readKey(t, "t", "", 9).Rows, rows[2:])
		if k := d.readKey(t, "t", "near", 9); len(k.Rows) != 0 || k.Wait <= 0 {
			t.Errorf("%+v", k)
		}
		if due := d.fetch(t, relay.FetchQuery{}).Due; len(due) != 2 {
			t.Errorf("due: %v, want far and the event without a key", due)
		}
	}},
	{"nothing at all while the lowest row is blocked", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 2)...)
		d.mark(t, rows[1], relay.HeldBehind, 0)
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		if k := d.readKey(t, "t", "k", 9); len(k.Rows) != 0 || k.Open || !k.Blocked {
			t.Errorf("%+v", k)
		}
	}},
	{"stopping before the lowest due row of the key that is not held", func(t *testing.T, d *desk) {
		if !d.Caps.Writers {
			t.Skip("one writer at a time")
		}
		first := d.write(t, event("t", "k", 1))
		late := d.Begin(t)
		middle := late.Insert(t, event("t", "k", 2))
		last := d.write(t, event("t", "k", 3))
		d.mark(t, first[0], relay.HeldRetry, 0)
		d.mark(t, last[0], relay.HeldBehind, 0)
		late.Commit(t)
		k := d.readKey(t, "t", "k", 9)
		same(t, "rows", k.Rows, first)
		if !k.More {
			t.Error("more: false")
		}
		d.settle(t, relay.Settlement{Delivered: refs(first)})
		if k := d.readKey(t, "t", "k", 9); len(k.Rows) != 0 || k.Open || !k.More {
			t.Errorf("with the unheld row lowest: %+v", k)
		}
		d.mark(t, middle[0], relay.HeldBehind, 0)
		same(t, "then", d.readKey(t, "t", "k", 9).Rows, append(middle, last...))
	}},
	{"stopping before a later row that waits by itself", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 3)...)
		d.mark(t, rows[0], relay.HeldBehind, 0)
		d.mark(t, rows[1], relay.HeldBlocked, 0)
		d.mark(t, rows[2], relay.HeldBehind, 0)
		k := d.readKey(t, "t", "k", 9)
		same(t, "rows", k.Rows, rows[:1])
		if k.Blocked {
			t.Error("blocked: the head is not")
		}
	}},
	{"Open says that the key has no held row, in the order of keys", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "a", 1), event("t", "b", 1))
		d.mark(t, rows[1], relay.HeldRetry, 0)
		out, err := d.ReadKeys(t.Context(), []relay.Key{{Topic: "t", Key: "b"}, {Topic: "t", Key: "a"}, {Topic: "x", Key: "b"}}, 9)
		if err != nil || len(out) != 3 {
			t.Fatal(out, err)
		}
		if out[0].Open || !out[1].Open || !out[2].Open || out[0].Key != (relay.Key{Topic: "t", Key: "b"}) || len(out[1].Rows) != 0 {
			t.Errorf("%+v", out)
		}
		same(t, "rows of b", out[0].Rows, rows[1:])
	}},
	{"for the empty key, the held rows whose retry_at has come, whatever the others do", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "", 5)...)
		if k := d.readKey(t, "t", "", 9); !k.Open || k.Blocked {
			t.Errorf("nothing held: %+v", k)
		}
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		if k := d.readKey(t, "t", "", 9); k.Open || !k.Blocked || len(k.Rows) != 0 {
			t.Errorf("one blocked: %+v", k)
		}
		d.mark(t, rows[1], relay.HeldRetry, time.Hour)
		if k := d.readKey(t, "t", "", 9); k.Open || k.Blocked || k.Wait < 59*time.Minute {
			t.Errorf("one waits: %+v", k)
		}
		d.mark(t, rows[2], relay.HeldRetry, 0)
		d.mark(t, rows[3], relay.HeldRetry, 0)
		k := d.readKey(t, "t", "", 9)
		same(t, "rows", k.Rows, rows[2:4])
		if k.Wait != 0 || k.More {
			t.Errorf("%+v", k)
		}
		if k := d.readKey(t, "t", "", 1); len(k.Rows) != 1 || !k.More {
			t.Errorf("limit 1: %d rows, more %v", len(k.Rows), k.More)
		}
	}},
	{"the payloads of one ReadKeys are bounded by 16 MiB, at least one row", func(t *testing.T, d *desk) {
		var keys []relay.Key
		for i := range 3 {
			r := event("t", fmt.Sprint(i), i)
			r.Payload = make([]byte, 9<<20)
			row := d.write(t, r)
			d.mark(t, row[0], relay.HeldRetry, 0)
			keys = append(keys, row[0].Key)
		}
		out, err := d.ReadKeys(t.Context(), keys, 9)
		if err != nil {
			t.Fatal(err)
		}
		n := len(out[0].Rows) + len(out[1].Rows) + len(out[2].Rows)
		if n != 1 || !out[1].More || !out[2].More || out[1].Open {
			t.Errorf("%d rows of 9 MiB, more %v %v", n, out[1].More, out[2].More)
		}
	}},
	{"a thousand keys in one read", func(t *testing.T, d *desk) {
		var keys []relay.Key
		var marks []relay.Mark
		rows := d.write(t, func() (all []relay.Row) {
			for i := range 1000 {
				all = append(all, event("t", fmt.Sprint(i), i))
			}
			return all
		}()...)
		for _, r := range rows {
			keys = append(keys, r.Key)
			marks = append(marks, relay.Mark{Ref: r.Ref, Held: relay.HeldRetry, Attempts: 1})
		}
		d.settle(t, relay.Settlement{Marks: marks})
		out, err := d.ReadKeys(t.Context(), keys, 5)
		if err != nil {
			t.Fatal(err)
		}
		for i, k := range out {
			if len(k.Rows) != 1 || k.Rows[0].ID != rows[i].ID {
				t.Fatalf("key %d: %+v", i, k)
			}
		}
	}},
	{"HeldKeys pages through the keys that nobody may be waiting for", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "blocked", 1), event("t", "behind", 1), event("t", "due", 1), event("t", "waits", 1),
			event("s", "due", 1), event("t", "", 1), event("u", "", 1), event("t", "free", 1))
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		d.mark(t, rows[1], relay.HeldBehind, 0)
		d.mark(t, rows[2], relay.HeldRetry, 0)
		d.mark(t, rows[3], relay.HeldRetry, time.Hour)
		d.mark(t, rows[4], relay.HeldRetry, 0)
		d.mark(t, rows[5], relay.HeldRetry, 0)
		d.mark(t, rows[6], relay.HeldBlocked, 0)
		want := []relay.Key{{Topic: "s", Key: "due"}, {Topic: "t"}, {Topic: "t", Key: "behind"}, {Topic: "t", Key: "due"}}
		if got := d.heldKeys(t); !slices.Equal(got, want) {
			t.Errorf("keys %v, want %v", got, want)
		}
		var paged []relay.Key
		for after, more := (relay.Key{}), true; more; {
			var page []relay.Key
			var err error
			if page, more, err = d.HeldKeys(t.Context(), after, 1); err != nil || len(page) != 1 {
				t.Fatal(page, more, err)
			}
			paged, after = append(paged, page...), page[0]
		}
		if !slices.Equal(paged, want) {
			t.Errorf("paged %v, want %v", paged, want)
		}
	}},
}
