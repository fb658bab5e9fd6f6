package outbox

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWrite_RefusesBeforeSQL(t *testing.T) {
	ok := Event{Topic: "orders", Key: "42", Type: "order.placed", Payload: []byte("{}")}
	with := func(change func(*Event)) Event {
		e := ok
		change(&e)
		return e
	}
	header := func(name, value string) Event {
		return with(func(e *Event) { e.Headers = map[string]string{name: value} })
	}
	cases := []struct {
		name, field string
		event       Event
	}{
		{"empty topic", "topic", with(func(e *Event) { e.Topic = "" })},
		{"topic of 256 bytes", "topic", with(func(e *Event) { e.Topic = strings.Repeat("t", 256) })},
		{"topic of 128 two-byte characters", "topic", with(func(e *Event) { e.Topic = strings.Repeat("é", 128) })},
		{"topic with NUL", "topic", with(func(e *Event) { e.Topic = "a\x00b" })},
		{"topic not in UTF-8", "topic", with(func(e *Event) { e.Topic = "a\xff" })},
		{"key of 1,025 bytes", "key", with(func(e *Event) { e.Key = strings.Repeat("k", 1_025) })},
		{"key with NUL", "key", with(func(e *Event) { e.Key = "\x00" })},
		{"key with a lone surrogate", "key", with(func(e *Event) { e.Key = "\xed\xa0\x80" })},
		{"type of 256 bytes", "type", with(func(e *Event) { e.Type = strings.Repeat("t", 256) })},
		{"type with a line break", "type", with(func(e *Event) { e.Type = "a\nb" })},
		{"payload over the limit", "payload", with(func(e *Event) { e.Payload = make([]byte, 1<<20+1) })},
		{"content type with a line break", "content_type", with(func(e *Event) { e.ContentType = "a/b\r\nx: y" })},
		{"negative schema version", "schema_version", with(func(e *Event) { e.SchemaVersion = -1 })},
		{"schema version over 31 bits", "schema_version", with(func(e *Event) { e.SchemaVersion = 1 << 31 })},
		{"negative subject version", "subject_version", with(func(e *Event) { e.SubjectVersion = -1 })},
		{"year 10,000", "available_at", with(func(e *Event) { e.AvailableAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) })},
		{"empty header name", `headers[""]`, header("", "v")},
		{"header name with a space", `headers["a b"]`, header("a b", "v")},
		{"header name with a colon", `headers["a:b"]`, header("a:b", "v")},
		{"header name not in ASCII", `headers["\u00e9"]`, header("é", "v")},
		{"CloudEvents attribute", `headers["CE-Id"]`, header("CE-Id", "v")},
		{"Kafka's CloudEvents attribute", `headers["ce_id"]`, header("ce_id", "v")},
		{"AMQP's CloudEvents attribute", `headers["cloudEvents_id"]`, header("cloudEvents_id", "v")},
		{"content type as a header", `headers["Content-Type"]`, header("Content-Type", "v")},
		{"NATS dedup id", `headers["Nats-Msg-Id"]`, header("Nats-Msg-Id", "v")},
		{"RabbitMQ's carbon copy", `headers["CC"]`, header("CC", "v")},
		{"credentials", `headers["Authorization"]`, header("Authorization", "v")},
		{"Pub/Sub's own", `headers["googclient_x"]`, header("googclient_x", "v")},
		{"AWS's own", `headers["AWS.x"]`, header("AWS.x", "v")},
		{"header value with NUL", `headers["a"]`, header("a", "\x00")},
		{"header value with CR", `headers["a"]`, header("a", "b\rc")},
		{"header value with LF", `headers["a"]`, header("a", "b\nc: d")},
		{"header value not in UTF-8", `headers["a"]`, header("a", "\xff")},
	}
	w := writer(t, Postgres, Config{})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			tx := &sqlTx{}
			err := w.Write(t.Context(), tx, ok, c.event)
			var invalid *ValidationError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want a *ValidationError", err)
			}
			if invalid.Field != c.field || invalid.Index != 1 {
				t.Fatalf("got field %s of event %d, want %s of event 1: %v", invalid.Field, invalid.Index, c.field, err)
			}
			if len(tx.calls) != 0 {
				t.Fatalf("%d statements were run", len(tx.calls))
			}
		})
	}
}

func TestWrite_RefusesHeadersThatDifferOnlyInCase(t *testing.T) {
	w := writer(t, SQLite, Config{})
	err := w.Write(t.Context(), &sqlTx{}, Event{Topic: "t", Headers: map[string]string{"Trace": "1", "trace": "2"}})
	var invalid *ValidationError
	if !errors.As(err, &invalid) || !strings.HasPrefix(invalid.Field, "headers[") {
		t.Fatalf("got %v", err)
	}
}

// S81: headers must fit into one frame of a broker.
func TestS81_HeadersOverTheLimitAreATypedError(t *testing.T) {
	w := writer(t, Postgres, Config{})
	for _, c := range []struct {
		bytes int
		ok    bool
	}{{32<<10 - 1, true}, {32 << 10, false}, {200 << 10, false}} {
		err := w.Write(t.Context(), &sqlTx{}, Event{Topic: "t", Headers: map[string]string{"a": strings.Repeat("v", c.bytes)}})
		var invalid *ValidationError
		switch {
		case c.ok && err != nil:
			t.Errorf("%d bytes: %v", c.bytes, err)
		case !c.ok && (!errors.As(err, &invalid) || invalid.Field != "headers"):
			t.Errorf("%d bytes: got %v, want a *ValidationError of headers", c.bytes, err)
		}
	}
}

func TestWrite_AcceptsTheLimits(t *testing.T) {
	w := writer(t, Postgres, Config{})
	err := w.Write(t.Context(), &sqlTx{}, Event{
		Topic: strings.Repeat("t", 255), Key: strings.Repeat("k", 1_024), Type: strings.Repeat("y", 255),
		Payload: make([]byte, 1<<20), SchemaVersion: 1<<31 - 1, SubjectVersion: 1<<63 - 1,
		AvailableAt: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		Headers: map[string]string{
			"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"x-tenant":    "Ünïcode 🎉 \t ok", "!#$%&'*+-.^_`|~09azAZ": "", "X-Request-ID": "1", "__TypeId__": "x",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestValidationError_NeverHoldsValues(t *testing.T) {
	w := writer(t, Postgres, Config{MaxPayload: 4})
	const secret = "s3cret"
	for _, e := range []Event{
		{Topic: "t", Key: secret + "\x00"},
		{Topic: "t", Payload: []byte(secret)},
		{Topic: "t", Headers: map[string]string{"a": secret + "\x00"}},
		{Topic: secret + "\x00"},
	} {
		if err := w.Write(t.Context(), &sqlTx{}, e); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v", err)
		}
	}
}

func FuzzHeaderName(f *testing.F) {
	f.Add("x-tenant")
	f.Add("CE-id")
	f.Fuzz(func(t *testing.T, name string) {
		if headerNameProblem(name) != "" {
			return
		}
		for i := range len(name) {
			if name[i] <= ' ' || name[i] >= 0x7f || name[i] == ':' {
				t.Fatalf("%q was accepted", name)
			}
		}
		if headerNameProblem(strings.ToUpper(name)) != "" || headerNameProblem(strings.ToLower(name)) != "" {
			t.Fatalf("%q depends on its case", name)
		}
	})
}
