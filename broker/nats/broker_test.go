package nats_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/broker/brokertest"
	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBroker(t *testing.T) { brokertest.Run(t, harness()) }

func BenchmarkPublish(b *testing.B) {
	h := harness()
	h.Raw = rawPublish(connect(b, testenv.NATS(b).URL()))
	brokertest.Bench(b, h)
}

func harness() brokertest.Harness {
	return brokertest.Harness{
		New: func(t testing.TB) *brokertest.Target {
			return newTarget(t, testenv.NATS(t).URL(), nats.Config{URL: testenv.NATS(t).URL()})
		},
		Faulty: newFaulty,
		Unreachable: func(t testing.TB) relay.Broker {
			return newBroker(t, nats.Config{URL: "nats://127.0.0.1:1"})
		},
		Caps: brokertest.Caps{Ordered: true, Headers: true, Dedup: true, MaxBytes: 1 << 20},
	}
}

// newFaulty puts a proxy between the broker and a server of its own; what is read
// comes past the proxy.
func newFaulty(t testing.TB) *brokertest.Faulty {
	server := testenv.StartNATS(t, testenv.NATSConfig{})
	proxy := testenv.Proxy(t, server.Addr())
	d := newTarget(t, server.URL(), nats.Config{URL: proxy.URL(t, server.URL())})
	return &brokertest.Faulty{
		Target:   *d,
		Restart:  func() { server.Kill(); server.Start() },
		Pause:    proxy.Pause,
		Resume:   func() { proxy.Resume(); proxy.Cut() },
		LoseAcks: proxy.DropReplies,
		FindAcks: proxy.Resume,
		Cut:      proxy.Cut,
	}
}
