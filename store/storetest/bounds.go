package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

var boundCases = []testcase{
	{"Rows bounds the result, and More says so", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 10)...)
		f := d.fetch(t, relay.FetchQuery{Rows: 4})
		same(t, "rows", f.Rows, rows[:4])
		if !f.More {
			t.Error("more: false")
		}
		if f := d.fetch(t, relay.FetchQuery{Rows: 100}); len(f.Rows) != 10 || f.More {
			t.Errorf("%d rows, more %v", len(f.Rows), f.More)
		}
	}},
	{"Bytes bounds the result, and More says so", func(t *testing.T, d *desk) {
		var rows []relay.Row
		for range 20 {
			r := event("t", "k", 1)
			r.Payload = bytes.Repeat([]byte("x"), 10000)
			rows = append(rows, d.write(t, r)...)
		}
		f := d.fetch(t, relay.FetchQuery{Bytes: 55000})
		if n := len(f.Rows); n < 3 || n > 5 || !f.More {
			t.Errorf("%d rows of 10,000 bytes within 55,000, more %v", n, f.More)
		}
		same(t, "rows", f.Rows, rows[:len(f.Rows)])
	}},
	{"at least one row is returned, however large", func(t *testing.T, d *desk) {
		for _, topic := range []string{"a", "b", "c"} {
			r := event(topic, "k", 1)
			r.Payload = make([]byte, 1<<20)
			d.write(t, r, r)
		}
		f := d.fetch(t, relay.FetchQuery{Bytes: 10})
		if len(f.Rows) != 1 || !f.More {
			t.Errorf("%d rows, more %v", len(f.Rows), f.More)
		}
	}},
	{"rows after a large one of their topic do not pass it", func(t *testing.T, d *desk) {
		large := event("t", "k", 2)
		large.Payload = make([]byte, 100000)
		rows := d.write(t, event("t", "k", 1), large, event("t", "k", 3))
		same(t, "rows", d.fetch(t, relay.FetchQuery{Bytes: 50000}).Rows, rows[:1])
	}},
	{"PerTopic bounds the rows of a single topic", func(t *testing.T, d *desk) {
		a, b := d.write(t, events("a", "k", 10)...), d.write(t, events("b", "k", 2)...)
		f := d.fetch(t, relay.FetchQuery{PerTopic: 3})
		same(t, "a", ofTopic(f.Rows, "a"), a[:3])
		same(t, "b", ofTopic(f.Rows, "b"), b)
		if !f.More {
			t.Error("more: false")
		}
	}},
	{"S24 a fetch is fair between topics", func(t *testing.T, d *desk) {
		d.write(t, events("deep", "k", 300)...)
		for i := range 9 {
			d.write(t, events(fmt.Sprintf("small %d", i), "k", 2)...)
		}
		f := d.fetch(t, relay.FetchQuery{Rows: 100})
		for i := range 9 {
			if n := len(ofTopic(f.Rows, fmt.Sprintf("small %d", i))); n != 2 {
				t.Errorf("topic small %d: %d rows of 2", i, n)
			}
		}
		if n := len(ofTopic(f.Rows, "deep")); n < 60 || len(f.Rows) > 100 {
			t.Errorf("%d rows, %d of the deep topic: what the small ones left is not used", len(f.Rows), n)
		}
	}},
	{"more topics than rows: none starves", func(t *testing.T, d *desk) {
		for i := range 12 {
			d.write(t, events(fmt.Sprintf("t%02d", i), "k", 3)...)
		}
		left := 36
		for range 12 {
			f := d.fetch(t, relay.FetchQuery{Rows: 5})
			if len(f.Rows) > 5 || len(f.Rows) == 0 && left > 0 {
				t.Fatalf("%d rows with %d left", len(f.Rows), left)
			}
			d.settle(t, relay.Settlement{Delivered: refs(f.Rows)})
			left -= len(f.Rows)
		}
		if left > 0 {
			t.Errorf("%d rows left", left)
		}
	}},
}

var byteCases = []testcase{
	{"payload, key, type and headers arrive exactly as written", func(t *testing.T, d *desk) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		rows := []relay.Row{
			{Key: relay.Key{Topic: "t", Key: "empty"}, Payload: []byte{}},
			{Key: relay.Key{Topic: "t", Key: "tombstone"}},
			{Key: relay.Key{Topic: "t", Key: "nul"}, Payload: []byte{0}},
			{Key: relay.Key{Topic: "t", Key: "bytes"}, Payload: all},
			{Key: relay.Key{Topic: "t", Key: "json"}, Payload: []byte(`{"a":"\u0000\ud800"}`), Type: "made", ContentType: "application/x+json"},
			{Key: relay.Key{Topic: "t", Key: "large"}, Payload: bytes.Repeat(all, 4096)},
			{Key: relay.Key{Topic: "t", Key: `'"\;-- {{x}} $1 %s`}, Payload: []byte("quotes"), Type: "a\tb"},
			{Key: relay.Key{Topic: "t", Key: strings.Repeat("k", 1024)}, Payload: []byte("long"), SchemaVersion: 3, SubjectVersion: 1 << 40},
			{Key: relay.Key{Topic: "t", Key: "headers"}, Payload: []byte("h"), Headers: map[string]string{"a": "", "b": `"\`, "traceparent": "00-1"}},
		}
		if d.Caps.AnyKey {
			rows = append(rows, relay.Row{
				Key: relay.Key{Topic: "тема", Key: "ключ 🔑 ÿ"}, Payload: []byte("unicode"), Headers: map[string]string{"ü": "€"},
			})
		}
		written := d.write(t, rows...)
		got := map[string]relay.Row{}
		for _, r := range d.fetch(t, relay.FetchQuery{}).Rows {
			got[r.Key.Key] = r
		}
		for _, w := range written {
			g, ok := got[w.Key.Key]
			switch {
			case !ok:
				t.Errorf("key %.40q: not fetched", w.Key.Key)
			case !bytes.Equal(g.Payload, w.Payload) || (g.Payload == nil) != (w.Payload == nil):
				t.Errorf("key %.40q: payload %.40q (nil %v), want %.40q", w.Key.Key, g.Payload, g.Payload == nil, w.Payload)
			case g.Ref.ID != w.ID || g.EventID != w.EventID || g.Key != w.Key || g.Type != w.Type || g.ContentType != w.ContentType,
				g.SchemaVersion != w.SchemaVersion || g.SubjectVersion != w.SubjectVersion, g.Generation != 0 || g.Attempts != 0:
				t.Errorf("row %+v, want %+v", g, w)
			case !maps.Equal(g.Headers, w.Headers):
				t.Errorf("headers %q, want %q", g.Headers, w.Headers)
			}
		}
	}},
	{"a fetched row stays as it is while others are fetched", func(t *testing.T, d *desk) {
		for i := range 200 {
			r := event("t", fmt.Sprint(i), i)
			r.Payload = bytes.Repeat([]byte{byte(i)}, 10+i*20)
			d.write(t, r)
		}
		first := d.fetch(t, relay.FetchQuery{}).Rows
		for range 3 {
			d.fetch(t, relay.FetchQuery{})
		}
		for i, r := range first {
			if !bytes.Equal(r.Payload, bytes.Repeat([]byte{byte(i)}, 10+i*20)) {
				t.Fatalf("payload of row %d changed", i)
			}
			_ = append(r.Payload, 0xFF) // a user may; the next row must not notice
		}
		for i, r := range first {
			if !bytes.Equal(r.Payload, bytes.Repeat([]byte{byte(i)}, 10+i*20)) {
				t.Fatalf("payload of row %d is not its own", i)
			}
		}
	}},
	{"ids of events are those of the writer", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.EventID = outbox.ID{0xff, 0, 1, 15: 0xfe}
		d.write(t, r)
		if got := d.fetch(t, relay.FetchQuery{}).Rows[0].EventID; got != r.EventID {
			t.Errorf("event id %s, want %s", got, r.EventID)
		}
	}},
}
