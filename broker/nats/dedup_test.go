package nats_test

import (
	"slices"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// TestS88_TheDedupIDIsTheIdentity: two events of the same body and key are both
// delivered; one whose ack was lost is sent again and stored once; a replay,
// which has another generation, is not swallowed.
func TestS88_TheDedupIDIsTheIdentity(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{})
	proxy := testenv.Proxy(t, server.Addr())
	js := connect(t, server.URL())
	stream := makeStream(t, js, jetstream.StreamConfig{Name: "S88", Subjects: []string{"s88"}})
	b := newBroker(t, nats.Config{URL: proxy.URL(t, server.URL())})
	if err := publishOne(t, b, event("warm", "s88", nil)); err != nil {
		t.Fatal(err)
	}

	db := memory.New(memory.Config{Name: "db"})
	r, err := relay.New(relay.Config{
		Databases: []relay.Database{{Name: "db", Store: db.Connect()}},
		Brokers:   map[string]relay.Broker{"default": b},
		Routes:    []relay.Route{{}},
		Lease:     2 * time.Second, PublishTimeout: 300 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	// drain makes passes until nothing is left, or only one.
	drain := func(once bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; {
			report, err := r.Drain(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(report.Left) == 0 || once {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("left: %+v", report.Left)
			}
		}
	}
	same := relay.Row{Key: relay.Key{Topic: "s88", Key: "k"}, Payload: []byte("the same body")}
	first, second := db.Insert(same)[0], db.Insert(same)[0]
	proxy.DropReplies() // the server stores them, and its acks are lost
	drain(true)
	proxy.Resume()
	drain(false)

	if n := db.Replay(first.Ref); n != 1 {
		t.Fatalf("%d events replayed", n)
	}
	drain(false)

	var ids []string
	for _, msg := range read(t, js, stream)[1:] {
		ids = append(ids, msg.Headers().Get(natsgo.MsgIdHdr))
	}
	if want := []string{first.EventID.String(), second.EventID.String(), first.EventID.String() + "#1"}; !slices.Equal(ids, want) {
		t.Errorf("dedup ids %q, want %q", ids, want)
	}
}
