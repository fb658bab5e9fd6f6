package nats_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/postrider/postrider/broker/brokertest"
	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
)

// TestBroker_NewestServer runs the suite on the newest server, in this process;
// TestBroker has the one that is installed, which is older by years in Debian.
func TestBroker_NewestServer(t *testing.T) {
	shared := newEmbedded(t)
	brokertest.Run(t, brokertest.Harness{
		New: func(t testing.TB) *brokertest.Target {
			return newTarget(t, shared.ClientURL(), nats.Config{URL: shared.ClientURL()})
		},
		Faulty: func(t testing.TB) *brokertest.Faulty {
			own := newEmbedded(t)
			proxy := testenv.Proxy(t, own.Addr().String())
			d := newTarget(t, own.ClientURL(), nats.Config{URL: "nats://" + proxy.Addr()})
			return &brokertest.Faulty{
				Target: *d, Cut: proxy.Cut,
				Pause: proxy.Pause, Resume: func() { proxy.Resume(); proxy.Cut() },
				LoseAcks: proxy.DropReplies, FindAcks: proxy.Resume,
			}
		},
		Caps: brokertest.Caps{Ordered: true, Headers: true, Dedup: true, MaxBytes: 1 << 20},
	})
}

// TestServerLimit_MaxBufferedMsgs: a call above what a newer server lets wait for
// one stream (10,000) is not dropped in part: the broker sends it in portions.
func TestServerLimit_MaxBufferedMsgs(t *testing.T) {
	t.Parallel()
	s := newEmbedded(t)
	d := newTarget(t, s.ClientURL(), nats.Config{URL: s.ClientURL()})
	events := make([]relay.Event, 30_000)
	for i := range events {
		events[i] = event(string(rune('a'+i%26))+time.Duration(i).String(), d.Destination, []byte("x"))
	}
	for i, err := range d.Broker.Publish(t.Context(), events) {
		if err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if n := len(d.Read(t)); n != len(events) {
		t.Errorf("%d messages of %d events", n, len(events))
	}
}

func newEmbedded(t testing.TB) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("embedded server is not ready")
	}
	return s
}
