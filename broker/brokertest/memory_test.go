package brokertest_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/broker/brokertest"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMemory: the reference implementation passes first.
func TestMemory(t *testing.T) {
	tooLarge := errors.New("too large")
	brokertest.Run(t, brokertest.Harness{
		New: func(testing.TB) *brokertest.Target {
			b := memory.NewBroker(memory.ServerConfig{
				Dedup: time.Hour,
				Verdict: func(e relay.Event) error {
					if len(e.Payload) > 1<<20 {
						return relay.Permanent(tooLarge)
					}
					return nil
				},
			})
			return &brokertest.Target{Broker: b, Destination: "memory", Read: func(testing.TB) (out []brokertest.Received) {
				for _, a := range b.Log() {
					out = append(out, brokertest.Received{ID: a.DedupID, Headers: a.Headers, ContentType: a.ContentType, Payload: a.Payload})
				}
				return out
			}}
		},
		Caps: brokertest.Caps{Ordered: true, Headers: true, Dedup: true, Tombstones: true, MaxBytes: 1 << 20},
	})
}
