package bench

import (
	"context"
	"errors"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/relay"
)

// NATSRaw publishes with the bare JetStream client: asynchronously, with dedup
// ids, waiting for the acknowledgements of each batch.
func NATSRaw(js jetstream.JetStream) func(context.Context, []relay.Event) error {
	return func(ctx context.Context, events []relay.Event) error {
		futures := make([]jetstream.PubAckFuture, len(events))
		for i := range events {
			m := natsgo.NewMsg(events[i].Destination)
			m.Data = events[i].Payload
			for name, value := range events[i].Headers {
				m.Header[name] = []string{value}
			}
			m.Header[jetstream.MsgIDHeader] = []string{events[i].DedupID}
			future, err := js.PublishMsgAsync(m)
			if err != nil {
				return err
			}
			futures[i] = future
		}
		for _, f := range futures {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				return err
			case <-ctx.Done():
				return errors.Join(errors.New("acknowledgements missing"), ctx.Err())
			}
		}
		return nil
	}
}
