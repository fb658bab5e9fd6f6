package storetest

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

var settleCases = []testcase{
	{"delivered rows leave the outbox for the history, whole", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.Headers, r.Type = map[string]string{"a": "b"}, "made"
		rows := d.write(t, r, event("t", "k", 2))
		if out := d.settle(t, relay.Settlement{Delivered: refs(rows[:1])}); out.Missed != 0 {
			t.Errorf("missed %d", out.Missed)
		}
		x := d.Look(t)
		if len(x.Pending) != 1 || len(x.Delivered) != 1 || len(x.Dead) != 0 {
			t.Fatalf("pending %d, delivered %d, dead %d", len(x.Pending), len(x.Delivered), len(x.Dead))
		}
		g := x.Delivered[0]
		if g.ID != rows[0].ID || g.EventID != rows[0].EventID || !bytes.Equal(g.Payload, r.Payload) || g.Key != r.Key || g.Headers["a"] != "b" || g.Type != "made" {
			t.Errorf("history %+v", g)
		}
	}},
	{"without a history they are gone", func(t *testing.T, d *desk) {
		if d.Caps.NoRetention == nil {
			t.Skip("no such store")
		}
		rows := d.write(t, events("t", "k", 3)...)
		out, err := d.Caps.NoRetention(t).Settle(t.Context(), relay.Settlement{Delivered: refs(rows)})
		if x := d.Look(t); err != nil || out.Missed != 0 || len(x.Pending) != 0 || len(x.Delivered) != 0 {
			t.Errorf("%+v, %v, %d pending, %d delivered", out, err, len(x.Pending), len(x.Delivered))
		}
	}},
	{"S16 a row is changed only if id, event id and generation are all as named", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 2)...)
		wrong := []relay.Ref{rows[0].Ref, rows[0].Ref, rows[0].Ref}
		wrong[0].EventID = outbox.NewID()
		wrong[1].Generation = 1
		wrong[2].ID = relay.IntID(rows[1].ID.Int() + 1000)
		for _, ref := range wrong {
			out := d.settle(t, relay.Settlement{
				Delivered: []relay.Ref{ref},
				Marks:     []relay.Mark{{Ref: ref, Held: relay.HeldBlocked, Attempts: 9}},
				Dead:      []relay.Death{{Ref: ref}},
			})
			if out.Missed != 3 {
				t.Errorf("missed %d of 3", out.Missed)
			}
		}
		x := d.Look(t)
		if len(x.Pending) != 2 || x.Pending[0].Held != "" || x.Pending[0].Attempts != 0 {
			t.Errorf("pending %+v", x.Pending)
		}
		d.settle(t, relay.Settlement{Delivered: refs(rows[:1])})
		if out := d.settle(t, relay.Settlement{Delivered: refs(rows)}); out.Missed != 1 {
			t.Errorf("settled twice: missed %d, want 1", out.Missed)
		}
		if x := d.Look(t); len(x.Delivered) != 2 {
			t.Errorf("delivered %d", len(x.Delivered))
		}
	}},
	{"a mark sets held, retry_at, attempts and last_error, as values", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "k", 1))
		for range 2 { // repeated: the same
			d.settle(t, relay.Settlement{Marks: []relay.Mark{{Ref: rows[0].Ref, Held: relay.HeldRetry, After: time.Hour, Attempts: 3, Error: "no"}}})
		}
		r, _ := d.Look(t).record(rows[0])
		wait := time.Until(r.Retry)
		if r.Held != relay.HeldRetry || r.Attempts != 3 || r.LastError != "no" || wait < 59*time.Minute || wait > 61*time.Minute {
			t.Errorf("%+v", r)
		}
		d.settle(t, relay.Settlement{Marks: []relay.Mark{{Ref: rows[0].Ref, Held: relay.HeldBlocked, Attempts: 4, Error: "never"}}})
		if r, _ := d.Look(t).record(rows[0]); r.Held != relay.HeldBlocked || r.Attempts != 4 || r.LastError != "never" {
			t.Errorf("%+v", r)
		}
	}},
	{"a mark without Held changes attempts and error only", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 2)...)
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		for _, r := range rows {
			d.settle(t, relay.Settlement{Marks: []relay.Mark{{Ref: r.Ref, Attempts: 7, Error: "e"}}})
		}
		a, _ := d.Look(t).record(rows[0])
		b, _ := d.Look(t).record(rows[1])
		if a.Held != relay.HeldBlocked || b.Held != "" || a.Attempts != 7 || b.Attempts != 7 || b.LastError != "e" {
			t.Errorf("%+v, %+v", a, b)
		}
	}},
	{"marking a held row behind changes nothing", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "k", 1))
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		d.mark(t, rows[0], relay.HeldBehind, 0)
		if r, _ := d.Look(t).record(rows[0]); r.Held != relay.HeldBlocked || r.Attempts != 1 || r.LastError != "refused" {
			t.Errorf("%+v", r)
		}
	}},
	{"S65 an error text can never fail an update", func(t *testing.T, d *desk) {
		for _, text := range []string{"a\x00b", "\xff\xfe", strings.Repeat("€", 1<<20), "→ ключ", "\xed\xa0\x80", "'; --"} {
			rows := d.write(t, event("t", "k", 1), event("t", "", 2))
			out := d.settle(t, relay.Settlement{
				Marks: []relay.Mark{{Ref: rows[0].Ref, Held: relay.HeldRetry, Attempts: 1, Error: text}},
				Dead:  []relay.Death{{Ref: rows[1].Ref, Attempts: 1, Class: "permanent", Cause: text}},
			})
			r, _ := d.Look(t).record(rows[0])
			if out.Missed != 0 || r.Attempts != 1 || r.LastError == "" {
				t.Errorf("error %.20q: missed %d, attempts %d, stored %.20q", text, out.Missed, r.Attempts, r.LastError)
			}
		}
	}},
	{"S27 a counter at its limit fails no batch", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "", 100)...)
		var marks []relay.Mark
		for i, r := range rows {
			m := relay.Mark{Ref: r.Ref, Held: relay.HeldRetry, Attempts: 1}
			if i == 50 {
				m.Attempts = math.MaxInt
			}
			marks = append(marks, m)
		}
		if out := d.settle(t, relay.Settlement{Marks: marks}); out.Missed != 0 {
			t.Errorf("missed %d", out.Missed)
		}
		k := d.readKey(t, "t", "", 1000)
		if len(k.Rows) != 100 {
			t.Errorf("%d rows of 100", len(k.Rows))
		}
		if out := d.settle(t, relay.Settlement{Delivered: refs(rows)}); out.Missed != 0 {
			t.Errorf("missed %d", out.Missed)
		}
	}},
	{"dead rows leave the outbox for the dead letters, whole, with their cause", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.Headers = map[string]string{"a": "b"}
		rows := d.write(t, r)
		out := d.settle(t, relay.Settlement{Dead: []relay.Death{{Ref: rows[0].Ref, Attempts: 4, Class: "permanent", Cause: "too large"}}})
		x := d.Look(t)
		if out.Missed != 0 || len(x.Pending) != 0 || len(x.Dead) != 1 {
			t.Fatalf("missed %d, pending %d, dead %d", out.Missed, len(x.Pending), len(x.Dead))
		}
		g := x.Dead[0]
		if g.Class != "permanent" || g.Cause != "too large" || g.Attempts != 4 || g.EventID != rows[0].EventID || !bytes.Equal(g.Payload, r.Payload) || g.Headers["a"] != "b" {
			t.Errorf("dead letter %+v", g)
		}
	}},
	{"dead letters are written only under the fence", func(t *testing.T, d *desk) {
		l := d.leaser(t)
		f, err := l.Join(t.Context(), relay.Member{Fence: relay.Fence{Instance: "me"}, Claim: relay.ClaimLanes})
		if err != nil {
			t.Fatal(err)
		}
		rows := d.write(t, events("t", "", 3)...)
		stale := f
		stale.Epoch--
		out := d.settle(t, relay.Settlement{Fence: stale, Delivered: refs(rows[:1]), Dead: []relay.Death{{Ref: rows[1].Ref}}})
		if x := d.Look(t); out.Missed != 1 || len(x.Dead) != 0 || len(x.Delivered) != 1 || len(x.Pending) != 2 {
			t.Errorf("stale fence: missed %d, %d dead, %d delivered, %d pending", out.Missed, len(x.Dead), len(x.Delivered), len(x.Pending))
		}
		out = d.settle(t, relay.Settlement{Fence: f, Dead: []relay.Death{{Ref: rows[1].Ref, Class: "c", Cause: "c"}}})
		if x := d.Look(t); out.Missed != 0 || len(x.Dead) != 1 {
			t.Errorf("fence: missed %d, %d dead", out.Missed, len(x.Dead))
		}
	}},
	{"an empty settlement is nothing", func(t *testing.T, d *desk) {
		if out := d.settle(t, relay.Settlement{}); out.Missed != 0 {
			t.Error(out)
		}
	}},
	{"a settlement in any order of ids", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "", 50)...)
		mixed := refs(rows)
		for i := range mixed {
			j := (i * 37) % len(mixed)
			mixed[i], mixed[j] = mixed[j], mixed[i]
		}
		if out := d.settle(t, relay.Settlement{Delivered: mixed}); out.Missed != 0 {
			t.Errorf("missed %d", out.Missed)
		}
	}},
}
