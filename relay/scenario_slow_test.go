package relay_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// inTurn is a broker that sends the next event of a key when the one before is
// acknowledged, all keys side by side, and whose acknowledgements take a while,
// one longer than the other: NATS JetStream across an ocean.
type inTurn struct {
	*memory.Broker
	shortest, longest time.Duration
}

func (b inTurn) Publish(ctx context.Context, events []relay.Event) []error {
	const turns = 4 // of length, in a cycle
	sent := map[string]int{}
	longest, took := 0, map[string]time.Duration{}
	errs := make([]error, len(events))
	var wait time.Duration
	deadline, _ := ctx.Deadline()
	left := time.Until(deadline)
	var in []relay.Event
	var at []int
	for i, e := range events {
		if took[e.Key] > left {
			errs[i] = relay.ErrHeld
			continue
		}
		n := time.Duration(sent[e.Key] % turns)
		took[e.Key] += b.shortest + (b.longest-b.shortest)*n/(turns-1)
		sent[e.Key]++
		longest = max(longest, sent[e.Key])
		wait = max(wait, took[e.Key])
		in, at = append(in, e), append(at, i)
	}
	for j, err := range b.Broker.Publish(ctx, in) {
		if errs[at[j]] = err; took[in[j].Key] > left {
			errs[at[j]] = context.DeadlineExceeded // accepted, but nobody is told
		}
	}
	time.Sleep(min(wait, left))
	return errs
}

// slowFetches is a store that takes a while for each fetch, and notices the end
// of its context.
type slowFetches struct {
	*memory.Store
	takes time.Duration
	cut   *bool
}

func (s slowFetches) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	select {
	case <-ctx.Done():
		*s.cut = true
		return relay.Fetched{}, ctx.Err()
	case <-time.After(s.takes):
		return s.Store.Fetch(ctx, q)
	}
}

// An orderly stop waits for a fetch on its way, but not for ever, and a fetch that
// is cut off then is no trouble of the database.
func TestS98_AStopCutsOnlyWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	for takes, want := range map[time.Duration]bool{300 * time.Millisecond: false, 5 * time.Second: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{})
			var log bytes.Buffer
			cut := false
			n := w.node(nil, func(c *relay.Config) {
				c.Databases[0].Store = slowFetches{w.db.Connect(), takes, &cut}
				c.Logger = slog.New(slog.NewTextHandler(&log, nil))
			})
			time.Sleep(100 * time.Millisecond) // the first fetch is on its way
			n.stop()
			if cut != want {
				t.Errorf("a fetch of %v: cut %v, want %v", takes, cut, want)
			}
			if strings.Contains(log.String(), "unreachable") {
				t.Error(log.String())
			}
		})
	}
}

// A broker whose acknowledgement takes a fifth to two fifths of the publish
// timeout is slow and works: no call may run into its timeout, since what it
// had sent is sent again. That takes a bound on the events of one key in a call.
func TestS15_SlowAcksOfOneKeyAreNoTimeout(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 200} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memory.ServerConfig{})
			all := keys(n)
			w.write("orders", all, 40)
			node := w.node(nil, func(c *relay.Config) {
				c.Lease, c.PublishTimeout = 2*time.Second, 500*time.Millisecond
				c.Brokers["default"] = inTurn{w.broker.Connect(), 100 * time.Millisecond, 200 * time.Millisecond}
			})
			w.drained(5 * time.Minute)
			if again := w.firsts(all, 40); again > 0 {
				t.Errorf("%d keys: %d duplicates", n, again)
			}
			node.stop()
		})
	}
}
