//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// message is one message of the stream.
type message struct {
	seq   uint64
	at    time.Time // by the broker's clock, which is this machine's
	id    string
	topic string
	key   string
	relay string // which one sent it
}

func (m message) String() string {
	return fmt.Sprintf("message %d at %s: event %s, topic %s, key %q, by %s", m.seq, m.at.UTC().Format("15:04:05.000"), m.id, m.topic, m.key, m.relay)
}

// read returns the whole stream.
func (s *stage) read() (all []message) {
	s.Helper()
	s.withStream(func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, streamName)
		if err != nil {
			return err
		}
		last := stream.CachedInfo().State.LastSeq
		if last == 0 {
			return nil
		}
		consumer, err := js.OrderedConsumer(ctx, streamName, jetstream.OrderedConsumerConfig{})
		if err != nil {
			return err
		}
		for {
			m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
			if err != nil {
				return fmt.Errorf("after %d of %d messages: %w", len(all), last, err)
			}
			meta, err := m.Metadata()
			if err != nil {
				return err
			}
			h := m.Headers()
			all = append(all, message{
				seq: meta.Sequence.Stream, at: meta.Timestamp, id: h.Get("ce-id"),
				topic: m.Subject(), key: h.Get("ce-subject"), relay: h.Get("relay"),
			})
			if meta.Sequence.Stream >= last {
				return nil
			}
		}
	})
	return all
}

// streamed is the number of messages in the stream.
func (s *stage) streamed() (n int) {
	s.Helper()
	s.withStream(func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, streamName)
		if err != nil {
			return err
		}
		n = int(stream.CachedInfo().State.LastSeq)
		return nil
	})
	return n
}
