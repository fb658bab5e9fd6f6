package relay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// gossip is a broker that quotes everything of what it is sent, in its errors or
// in a panic.
type gossip struct {
	*memory.Broker
	how *atomic.Int32
}

const ways = 7

func (g gossip) Publish(_ context.Context, events []relay.Event) []error {
	errs := make([]error, len(events))
	for i, e := range events {
		said := fmt.Sprintf("no: %s %q %v %s %s", e.Payload, e.Payload, e.Headers, e.Key, e.Destination)
		said += fmt.Sprintf(" and %s", e.Payload[5:25])
		switch err := errors.New(said); g.how.Load() % ways {
		case 0:
			errs[i] = relay.Rejected(err)
		case 1:
			errs[i] = relay.Permanent(err)
		case 2:
			errs[i] = relay.Unavailable(err)
		case 3:
			errs[i] = err
		case 4:
			errs[i] = relay.RetryAfter(err, time.Second)
		case 5:
			panic(err)
		default:
			panic(said)
		}
	}
	return errs
}

// TestS69_Guarantee10_ErrorsDoNotQuoteTheEvent: whatever a broker says, nothing
// of payload, header values or key is in logs, tables and status.
func TestS69_Guarantee10_ErrorsDoNotQuoteTheEvent(t *testing.T) {
	t.Parallel()
	const payload, header, key = `{"mail":"ann@canary.example","pin":4711}`, "bearer c4nary-header", "c4nary key/7"
	secrets := []string{"canary.example", "4711", "c4nary", "ann@"}
	for _, claim := range []string{relay.ClaimLanes, relay.ClaimCompeting} {
		for _, onFailure := range []string{relay.OnFailureBlock, relay.OnFailureDeadLetter} {
			for how := range int32(ways) {
				t.Run(fmt.Sprintf("%s %s %d", claim, onFailure, how), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, memory.ServerConfig{})
						var log bytes.Buffer
						var way atomic.Int32
						way.Store(how)
						r := w.relay(func(c *relay.Config) {
							c.Databases[0].Claim = claim
							c.Brokers["default"] = gossip{w.broker.Connect(), &way}
							c.Routes = []relay.Route{{Destination: "d.{key}", OnFailure: onFailure, Headers: map[string]string{"api-token": "c4nary-route"}}}
							c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
						})
						stop := w.start(r)
						for range 3 {
							for _, k := range []string{key, key + "b", ""} {
								w.db.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: k}, Payload: []byte(payload), Headers: map[string]string{"auth": header}})
							}
						}
						time.Sleep(20 * time.Second)
						status, err := json.Marshal(r.Status(t.Context()))
						if err != nil {
							t.Fatal(err)
						}
						stop()
						said := log.String() + string(status)
						rows := 0
						for _, row := range w.db.Pending() {
							said += "\n" + row.LastError
							if row.LastError != "" {
								rows++
							}
						}
						for _, d := range w.db.Dead() {
							said += "\n" + d.Cause + d.LastError
							rows++
						}
						if rows == 0 && how < 2 {
							t.Error("no error was kept")
						}
						for _, secret := range secrets {
							if at := strings.Index(said, secret); at >= 0 {
								t.Fatalf("%q is shown: …%s…", secret, said[max(0, at-100):min(len(said), at+60)])
							}
						}
					})
				})
			}
		}
	}
}
