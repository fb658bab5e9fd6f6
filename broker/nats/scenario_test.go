package nats_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/wire"
)

func event(id, subject string, payload []byte) relay.Event {
	return relay.Event{Identity: id, DedupID: id, Topic: "topic", Destination: subject, ContentType: "text/plain", Payload: payload}
}

func publishOne(t *testing.T, b *nats.Broker, e relay.Event) error {
	t.Helper()
	return b.Publish(t.Context(), []relay.Event{e})[0]
}

// TestS82_DedupWindow: a duplicate ack is a success, a retry behind the window is
// a second message, a replay is never swallowed.
func TestS82_DedupWindow(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{})
	proxy := testenv.Proxy(t, server.Addr())
	js := connect(t, server.URL())
	stream := makeStream(t, js, jetstream.StreamConfig{Name: "S82", Subjects: []string{"s82"}, Duplicates: 2 * time.Second})
	b := newBroker(t, nats.Config{URL: proxy.URL(t, server.URL())})

	if err := publishOne(t, b, event("warm", "s82", nil)); err != nil {
		t.Fatal(err)
	}
	proxy.DropReplies()
	ctx, cancel := contextWithTimeout(t, 300*time.Millisecond)
	defer cancel()
	e := event("e1", "s82", []byte("one"))
	if err := b.Publish(ctx, []relay.Event{e})[0]; err == nil || relay.IsPermanent(err) || relay.IsRejected(err) {
		t.Fatalf("lost ack: %v, want an error of unknown fate", err)
	}
	first := time.Now()
	proxy.Resume()
	retry(t, b, e)
	if n := len(read(t, js, stream)); n != 2 {
		t.Errorf("%d messages after a retry within the window, want e1 once", n-1)
	}
	replay := e
	replay.Generation, replay.DedupID = 1, "e1#1"
	if err := publishOne(t, b, replay); err != nil {
		t.Error(err)
	}
	if n := len(read(t, js, stream)); n != 3 {
		t.Errorf("%d messages, want the replay beside e1", n-1)
	}
	time.Sleep(time.Until(first.Add(4 * time.Second))) // the window ends on the server's clock
	retry(t, b, e)
	msgs := read(t, js, stream)
	if len(msgs) != 4 {
		t.Fatalf("%d messages after a retry behind the window, want 4 with the first", len(msgs))
	}
	if id := msgs[3].Headers().Get(natsgo.MsgIdHdr); id != "e1" {
		t.Errorf("dedup id of the second delivery %q: consumers' inboxes know e1", id)
	}
}

// retry publishes until the client has reconnected.
func retry(t *testing.T, b *nats.Broker, e relay.Event) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		err := publishOne(t, b, e)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestS84_MaxPayload: sizes around the limit, headers included; a neighbour of an
// oversized event passes; a server that comes back with a smaller limit is obeyed.
func TestS84_MaxPayload(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, server.URL())
	makeStream(t, js, jetstream.StreamConfig{Name: "S84", Subjects: []string{"s84"}})
	makeStream(t, js, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"small"}, MaxMsgSize: 1000})
	b := newBroker(t, nats.Config{URL: server.URL()})

	const limit = 1 << 20
	const headers = len("NATS/1.0\r\nNats-Msg-Id: fits\r\n\r\n")
	bare := func(id string, size int) relay.Event {
		e := event(id, "s84", make([]byte, size))
		e.ContentType = ""
		return e
	}
	for _, c := range []struct {
		e  relay.Event
		ok bool
	}{
		{bare("fits", limit-headers), true},
		{bare("over", limit-headers+1), false},
		{bare("1MiB", limit), false},
		{bare("more", limit+1), false},
	} {
		errs := b.Publish(t.Context(), []relay.Event{event(c.e.Identity+"-before", "s84", nil), c.e, event(c.e.Identity+"-after", "s84", nil)})
		if errs[0] != nil || errs[2] != nil {
			t.Errorf("neighbours of %s: %v, %v", c.e.Identity, errs[0], errs[2])
		}
		if c.ok != (errs[1] == nil) || !c.ok && !relay.IsPermanent(errs[1]) {
			t.Errorf("%s: %v, want accepted: %v, else permanent", c.e.Identity, errs[1], c.ok)
		}
	}
	if err := publishOne(t, b, event("for-small", "small", make([]byte, 2000))); !relay.IsPermanent(err) || relay.HintOf(err) == "" {
		t.Errorf("above the stream's max_msg_size: %v, want permanent with a hint", err)
	}

	server.Reload(testenv.NATSConfig{MaxPayload: 4096})
	server.Restart()
	retry(t, b, event("small-again", "s84", []byte("x")))
	big := event("was-fine", "s84", make([]byte, 5000))
	if err := publishOne(t, b, big); !relay.IsPermanent(err) {
		t.Errorf("5,000 bytes at a limit of 4,096 that came with a restart: %v, want permanent", err)
	}
	if err := publishOne(t, b, event("neighbour", "s84", []byte("x"))); err != nil {
		t.Error(err)
	}
}

// TestS85_AddressTokens: whatever a key holds, its event ends on the encoded
// subject or is refused for good, and the connection stays up.
func TestS85_AddressTokens(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{})
	js := connect(t, server.URL())
	stream := makeStream(t, js, jetstream.StreamConfig{Name: "S85", Subjects: []string{"orders.>", "*"}})
	system := watch(t, server.URL(), "$JS.x", "$SYS.>", "_INBOX.x")
	b := newBroker(t, nats.Config{URL: server.URL()})
	inOrders, err := wire.ParseTemplate("orders.{key}")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := wire.ParseTemplate("{key}")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{
		" ", "\t", "\r", "\n", "\r\nPUB x 1", "*", ">", "#", "+", ".", "", "..", "a b", "a.b", "%", "ü", "\xff",
		strings.Repeat("k", 1024), strings.Repeat(" ", 64<<10), "$JS.x", "$SYS", "_INBOX.x", "_INBOX", "\x00", "orders",
	}
	want := map[string]int{}
	for _, tmpl := range []*wire.Template{inOrders, bare} {
		for i, key := range keys {
			subject, err := tmpl.Expand(&wire.Event{Key: key}, b)
			if err != nil {
				t.Fatal(err)
			}
			e := event(tmpl.String()+string(rune('a'+i)), subject, []byte(key))
			e.Key = key
			switch err := publishOne(t, b, e); {
			case err == nil:
				want[subject]++
			case len(key) <= 1024 || !relay.IsPermanent(err):
				t.Errorf("key %.20q: %v", key, err)
			}
		}
	}
	for _, subject := range []string{"", "a b", "a..b", ".a", "a.", "a.*", "a.>", "$JS.API.STREAM.PURGE.S85", "$SYS.x", "_INBOX.x", "a\r\nb"} {
		if err := publishOne(t, b, event("bad", subject, nil)); !relay.IsPermanent(err) {
			t.Errorf("subject %q: %v, want permanent", subject, err)
		}
	}
	for _, msg := range read(t, js, stream) {
		want[msg.Subject()]--
		last := msg.Subject()[strings.LastIndexByte(msg.Subject(), '.')+1:]
		if key := nats.UnescapeToken(last); !bytes.Equal([]byte(key), msg.Data()) {
			t.Errorf("subject %q gives the key %q, want %q", msg.Subject(), key, msg.Data())
		}
	}
	for subject, n := range want {
		if n != 0 {
			t.Errorf("subject %q: %d messages missing", subject, n)
		}
	}
	if got := system(); len(got) > 0 {
		t.Errorf("published on subjects of the server: %q", got)
	}
}

// TestS71_NoAckWithoutStream: what no stream stores is not accepted, although a
// plain subscriber gets it.
func TestS71_NoAckWithoutStream(t *testing.T) {
	t.Parallel()
	url := testenv.NATS(t).URL()
	watch(t, url, "s71.nowhere")
	b := newBroker(t, nats.Config{URL: url})
	err := publishOne(t, b, event("e", "s71.nobody", nil))
	if !relay.IsUnavailable(err) || relay.HintOf(err) == "" {
		t.Errorf("subject that nobody takes: %v, want unavailable with a hint", err)
	}
	ctx, cancel := contextWithTimeout(t, 300*time.Millisecond)
	defer cancel()
	if err := b.Publish(ctx, []relay.Event{event("e", "s71.nowhere", nil)})[0]; err == nil {
		t.Error("accepted by a plain subscriber")
	}
}

// TestCommandHeaders: an event cannot command the server.
func TestCommandHeaders(t *testing.T) {
	t.Parallel()
	url := testenv.NATS(t).URL()
	js := connect(t, url)
	stream := makeStream(t, js, jetstream.StreamConfig{Name: "HEADERS", Subjects: []string{"headers"}, AllowRollup: true})
	b := newBroker(t, nats.Config{URL: url})
	if err := publishOne(t, b, event("kept", "headers", nil)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Nats-Rollup", "nats-rollup", "Nats-Msg-Id", "Nats-Expected-Stream", "a b", "a:b", "", "a\r\nb", "ü"} {
		e := event("e"+name, "headers", nil)
		e.Headers = map[string]string{name: "all"}
		if err := publishOne(t, b, e); !relay.IsPermanent(err) {
			t.Errorf("header %q: %v, want permanent", name, err)
		}
	}
	if n := len(read(t, js, stream)); n != 1 {
		t.Errorf("stream holds %d messages, want the first alone", n)
	}
}

// TestS88_SameBodyTwice: the dedup id is the event's, never made from its content.
func TestS88_SameBodyTwice(t *testing.T) {
	t.Parallel()
	url := testenv.NATS(t).URL()
	js := connect(t, url)
	stream := makeStream(t, js, jetstream.StreamConfig{Name: "S88", Subjects: []string{"s88"}})
	b := newBroker(t, nats.Config{URL: url})
	one, two := event("one", "s88", []byte("same")), event("two", "s88", []byte("same"))
	one.Key, two.Key = "k", "k"
	for range 2 { // the second time as if both acks had been lost
		for _, err := range b.Publish(t.Context(), []relay.Event{one, two}) {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if n := len(read(t, js, stream)); n != 2 {
		t.Errorf("%d messages of two events with one body, each sent twice", n)
	}
}
