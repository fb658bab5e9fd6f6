package wire_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/wire"
)

func mustEncode(t testing.TB, format string, e *wire.Event) wire.Message {
	t.Helper()
	enc, err := wire.New(format, "")
	if err != nil {
		t.Fatal(err)
	}
	m, err := enc.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestS67_PayloadBytes: the bytes at the far end are those of the table.
func TestS67_PayloadBytes(t *testing.T) {
	t.Parallel()
	payload := []byte(`{"zebra":1,"a":2,"a":3, "n":1.0e2 }`)
	want := sha256.Sum256(payload)
	for _, format := range []string{wire.CloudEvents, wire.Raw, wire.Debezium, wire.Watermill} {
		m := mustEncode(t, format, &wire.Event{Identity: "i", Topic: "t", Payload: payload})
		if sha256.Sum256(m.Payload) != want {
			t.Errorf("%s: body %q", format, m.Payload)
		}
	}
}

// TestS68_LargeNumbers: the envelope holds the payload as a slice of its bytes.
func TestS68_LargeNumbers(t *testing.T) {
	t.Parallel()
	payload := []byte(`{"id":9007199254740993,"x":1e400,"y":0.1000000000000000055}`)
	m := mustEncode(t, wire.Structured, &wire.Event{Identity: "i", Topic: "t", ContentType: "application/json", Payload: payload})
	if !bytes.Contains(m.Payload, append([]byte(`"data":`), payload...)) {
		t.Errorf("envelope %s", m.Payload)
	}
	m = mustEncode(t, wire.CloudEvents, &wire.Event{Identity: "i", Topic: "t", ContentType: "application/json", Payload: payload})
	if !bytes.Equal(m.Payload, payload) {
		t.Errorf("body %s", m.Payload)
	}
}

// FuzzStructured: whatever an event holds, the envelope is JSON, and the payload
// comes out of it as it went in.
func FuzzStructured(f *testing.F) {
	f.Add("id", "key", "type", "application/json", []byte(`{"a":1}`))
	f.Add("\"", "\x00\n", "", "text/plain", []byte("\xff"))
	f.Add("", "\xff", "\u2028", "", []byte(`"`))
	f.Add("", "", "", "", []byte(" null\n"))
	f.Fuzz(func(t *testing.T, id, key, typ, contentType string, payload []byte) {
		if payload == nil {
			payload = []byte{}
		}
		m := mustEncode(t, wire.Structured, &wire.Event{Identity: id, Topic: "t", Key: key, Type: typ, ContentType: contentType, Payload: payload})
		var envelope struct {
			ID         string          `json:"id"`
			Data       json.RawMessage `json:"data"`
			DataBase64 *[]byte         `json:"data_base64"`
		}
		if err := json.Unmarshal(m.Payload, &envelope); err != nil {
			t.Fatalf("%q: %v", m.Payload, err)
		}
		if want := strings.ToValidUTF8(id, "\ufffd"); strings.ToValidUTF8(envelope.ID, "\ufffd") != want && !strings.Contains(want, "\ufffd") {
			t.Errorf("id %q, want %q", envelope.ID, want)
		}
		if envelope.DataBase64 != nil {
			if !bytes.Equal(*envelope.DataBase64, payload) {
				t.Errorf("payload %q, want %q", *envelope.DataBase64, payload)
			}
		} else if !bytes.Contains(m.Payload, payload) {
			t.Errorf("envelope %q without %q", m.Payload, payload)
		}
	})
}

func FuzzPercent(f *testing.F) {
	for _, s := range []string{"", "plain", "a b", "100%", "%41", "ü🚲", "\r\n", `"`, "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		encoded := wire.EncodeValue(s)
		if got := wire.DecodeValue(encoded); got != s {
			t.Errorf("%q became %q and then %q", s, encoded, got)
		}
		for i := range len(encoded) {
			if c := encoded[i]; c <= ' ' || c >= 0x7f || c == '"' {
				t.Errorf("%q became %q", s, encoded)
			}
		}
	})
}

func TestEncode_LeavesTheEventAlone(t *testing.T) {
	t.Parallel()
	for _, format := range wire.Formats() {
		headers := map[string]string{"a": "1", "traceparent": "2"}
		before := maps.Clone(headers)
		mustEncode(t, format, &wire.Event{Identity: "i", Topic: "t", Headers: headers, Generation: 1, Created: time.Now()})
		if !maps.Equal(headers, before) {
			t.Errorf("%s: the event's headers became %v", format, headers)
		}
	}
}

func TestRespell(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"ce-id": "1", "ce-custom": "2", "tenant": "3"}
	for to, want := range map[string]map[string]string{
		"ce-":          headers,
		"ce_":          {"ce_id": "1", "ce_custom": "2", "tenant": "3"},
		"cloudEvents:": {"cloudEvents:id": "1", "cloudEvents:custom": "2", "tenant": "3"},
		"":             {"id": "1", "custom": "2", "tenant": "3"},
	} {
		if got := maps.Collect(wire.Respell(headers, to)); !maps.Equal(got, want) {
			t.Errorf("Respell(%q) = %v, want %v", to, got, want)
		}
	}
}

type starEscaper struct{}

func (starEscaper) EscapeToken(s string) string { return "<" + s + ">" }

type topicEscaper struct{ starEscaper }

func (topicEscaper) EscapeTopic(s string) string { return "[" + s + "]" }

func TestTemplate(t *testing.T) {
	t.Parallel()
	e := &wire.Event{Database: "db", Topic: "orders.created", Key: "k", Type: "", Headers: map[string]string{"region": "eu"}}
	for _, c := range []struct {
		text   string
		esc    wire.Escaper
		want   string
		static bool
	}{
		{"{topic}", nil, "orders.created", true},
		{"events", starEscaper{}, "events", true},
		{"{topic}", starEscaper{}, "<orders.created>", true},
		{"{topic}", topicEscaper{}, "[orders.created]", true},
		{"a.{database}.{topic}", topicEscaper{}, "a.<db>.[orders.created]", true},
		{"{topic}.{key}", nil, "orders.created.k", false},
		{"{type}", nil, "orders.created", false},
		{"https://x/{header.region}?k={key}", starEscaper{}, "https://x/<eu>?k=<k>", false},
		{"{{{key}}}", nil, "{k}", false},
	} {
		tmpl, err := wire.ParseTemplate(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		got, err := tmpl.Expand(e, c.esc)
		if got != c.want || err != nil || tmpl.Static() != c.static || tmpl.String() != c.text {
			t.Errorf("%s: %q, %v, static %v; want %q, static %v", c.text, got, err, tmpl.Static(), c.want, c.static)
		}
	}
	for _, text := range []string{"", "{", "}", "{key", "{foo}", "{header.}", "{}", "a}b"} {
		if _, err := wire.ParseTemplate(text); err == nil {
			t.Errorf("template %q parsed", text)
		}
	}
	tmpl, _ := wire.ParseTemplate("x.{header.gone}")
	if _, err := tmpl.Expand(e, nil); !errors.Is(err, wire.ErrNoHeader) {
		t.Errorf("missing header: %v", err)
	}
}

func BenchmarkEncode(b *testing.B) {
	e := &wire.Event{
		Identity: "0198c2a4-0000-7000-8000-000000000001", Database: "shop", Topic: "orders.created", Key: "42",
		Type: "order.created", ContentType: "application/json", Payload: []byte(`{"id":42,"total":"13.37"}`),
		Headers: map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, Created: time.Now(),
	}
	for _, format := range wire.Formats() {
		b.Run(format, func(b *testing.B) {
			enc, err := wire.New(format, "")
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := enc.Encode(e); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
