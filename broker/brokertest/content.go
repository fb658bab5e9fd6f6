package brokertest

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/postrider/postrider/relay"
)

var contentCases = []testCase{
	{"payload bytes arrive exactly as written", payloads},
	{"header values arrive exactly as written", headers},
	{"a tombstone stays a tombstone", tombstone},
	{"an oversized event is permanent and its small neighbours are accepted", oversized},
	{"Publish keeps no event after it returns", keepsNothing},
}

func payloads(t *testing.T, h Harness) {
	d := h.open(t)
	var all [256]byte
	for i := range all {
		all[i] = byte(i)
	}
	big := 1 << 20
	if h.Caps.MaxBytes > 0 {
		big = min(big, h.Caps.MaxBytes/2)
	}
	bodies := [][]byte{
		all[:],
		{},
		{0},
		[]byte("\r\n"),
		[]byte(`{"zebra":1,"a":2,"a":3, "n":1.0e2, "id":9007199254740993 }`),
		bytes.Repeat(all[:], big/256),
	}
	events := make([]relay.Event, len(bodies))
	for i, body := range bodies {
		events[i] = d.event("a", i)
		events[i].Payload = body
	}
	wantAll(t, publish(t, d, patience, events))
	got := byID(await(t, d, len(bodies)))
	for i, body := range bodies {
		r := got[events[i].DedupID]
		if !bytes.Equal(r.Payload, body) {
			t.Errorf("payload %d of %d bytes: %d other bytes arrived", i, len(body), len(r.Payload))
		}
		if r.ContentType != events[i].ContentType {
			t.Errorf("payload %d: content type %q, want %q", i, r.ContentType, events[i].ContentType)
		}
		if h.Caps.Tombstones && r.Payload == nil {
			t.Errorf("payload %d of %d bytes: a tombstone arrived", i, len(body))
		}
	}
}

func headers(t *testing.T, h Harness) {
	if !h.Caps.Headers {
		t.Skip("the destination has no headers")
	}
	d := h.open(t)
	e := d.event("a", 0)
	maps.Copy(e.Headers, map[string]string{
		"ce-subject":   "a key, 100 % \"späti\" 🚲",
		"ce-source":    "postrider/db",
		"traceparent":  "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"X-Mixed-Case": "Value",
		"empty":        "",
		"unicode":      "grüße, 世界, 🚲",
		"percent":      "100%25 %zz",
		"blanks":       "  two before, one after ",
		"lines":        "one\r\ntwo: three\n",
		"tab":          "\ta\tb",
		"controls":     "\x01\x1b\x7f",
		"quotes":       `"\'`,
		"long":         strings.Repeat("x", 2000),
	})
	for i := range 40 {
		e.Headers[fmt.Sprintf("many-%02d", i)] = fmt.Sprint(i)
	}
	wantAll(t, publish(t, d, patience, []relay.Event{e}))
	got := await(t, d, 1)[0].Headers
	for name, want := range e.Headers {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("header %s: %q (there: %v), want %q", name, value, ok, want)
		}
	}
}

func tombstone(t *testing.T, h Harness) {
	d := h.open(t)
	e := d.event("a", 0)
	e.Payload, e.ContentType = nil, ""
	wantAll(t, publish(t, d, patience, []relay.Event{e}))
	r := await(t, d, 1)[0]
	if len(r.Payload) != 0 || h.Caps.Tombstones && r.Payload != nil {
		t.Errorf("payload %q, want none", r.Payload)
	}
	if r.ContentType != "" {
		t.Errorf("content type %q of nothing", r.ContentType)
	}
}

func oversized(t *testing.T, h Harness) {
	if h.Caps.MaxBytes == 0 {
		t.Skip("the destination has no limit of size")
	}
	d := h.open(t)
	events := append(d.events(5, 1), d.free(3)...)
	big := d.event("big", 0)
	big.Payload = make([]byte, h.Caps.MaxBytes+1)
	events = append(events[:4:4], append([]relay.Event{big}, events[4:]...)...)
	errs := publish(t, d, patience, events)
	for i, err := range errs {
		if i == 4 && !relay.IsPermanent(err) {
			t.Errorf("oversized event: %v, want it permanent", err)
		}
		if i != 4 && err != nil {
			t.Errorf("small event %d: %v", i, err)
		}
	}
	checkDelivered(t, h, d, append(events[:4:4], events[5:]...))
}

func keepsNothing(t *testing.T, h Harness) {
	d := h.open(t)
	events := d.events(10, 3)
	want := make([]relay.Event, len(events))
	for i, e := range events {
		want[i] = e
		want[i].Payload, want[i].Headers = bytes.Clone(e.Payload), maps.Clone(e.Headers)
	}
	wantAll(t, publish(t, d, patience, events))
	for i := range events {
		clear(events[i].Payload)
		clear(events[i].Headers)
		events[i] = relay.Event{}
	}
	got := byID(await(t, d, len(want)))
	for _, e := range want {
		if r := got[e.DedupID]; !bytes.Equal(r.Payload, e.Payload) {
			t.Errorf("event %s: payload %q after the caller used its buffer again", e.DedupID, r.Payload)
		}
	}
}

func byID(received []Received) map[string]Received {
	m := make(map[string]Received, len(received))
	for _, r := range received {
		m[r.ID] = r
	}
	return m
}
