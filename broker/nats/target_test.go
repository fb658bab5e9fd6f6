package nats_test

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/broker/brokertest"
	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/wire"
)

var streamNumber atomic.Int64

// newTarget makes a stream of the test's own and a broker for it.
func newTarget(t testing.TB, serverURL string, cfg nats.Config) *brokertest.Target {
	name := "T" + strconv.FormatInt(streamNumber.Add(1), 10)
	js := connect(t, serverURL)
	stream := makeStream(t, js, jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}})
	return &brokertest.Target{
		Broker:      newBroker(t, cfg),
		Destination: name + ".events",
		Read:        func(t testing.TB) []brokertest.Received { return readAll(t, js, stream) },
	}
}

func newBroker(t testing.TB, cfg nats.Config) *nats.Broker {
	t.Helper()
	b, err := nats.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func connect(t testing.TB, url string, opts ...natsgo.Option) jetstream.JetStream {
	t.Helper()
	nc, err := natsgo.Connect(url, append(opts, natsgo.MaxReconnects(-1), natsgo.ReconnectWait(20*time.Millisecond))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func makeStream(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		// nats-server 2.9 answers "error creating store for stream" now and then
		// when several streams are made at once.
		_, err := js.CreateStream(ctx, cfg)
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == 10049 && ctx.Err() == nil {
			continue
		}
		if err != nil {
			t.Fatalf("create stream %s: %v", cfg.Name, err)
		}
		break
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = js.DeleteStream(ctx, cfg.Name) // a private server may be gone
	})
	return cfg.Name
}

// read returns the stream's messages in order.
func read(t testing.TB, js jetstream.JetStream, stream string) []jetstream.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out []jetstream.Msg
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil // the server restarts; the caller reads again
	}
	n := int(s.CachedInfo().State.Msgs)
	if n == 0 {
		return nil
	}
	c, err := s.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil
	}
	for len(out) < n {
		batch, err := c.Fetch(n-len(out), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return out
		}
		before := len(out)
		for msg := range batch.Messages() {
			out = append(out, msg)
		}
		if len(out) == before {
			return out
		}
	}
	return out
}

func readAll(t testing.TB, js jetstream.JetStream, stream string) []brokertest.Received {
	t.Helper()
	var out []brokertest.Received
	for _, msg := range read(t, js, stream) {
		out = append(out, brokertest.Received{
			ID:          wire.DecodeValue(msg.Headers().Get(natsgo.MsgIdHdr)),
			Headers:     nats.Headers(msg.Headers()),
			ContentType: nats.ContentType(msg.Headers()),
			Payload:     msg.Data(),
		})
	}
	return out
}

// rawPublish is what nats.go does at its quickest: asynchronous publishes with
// the same dedup ids and headers.
func rawPublish(js jetstream.JetStream) func(testing.TB, *brokertest.Target, []relay.Event) {
	return func(t testing.TB, _ *brokertest.Target, events []relay.Event) {
		t.Helper()
		publishAsync(t, js, events)
	}
}

func publishAsync(t testing.TB, js jetstream.JetStream, events []relay.Event) {
	t.Helper()
	acks := make([]jetstream.PubAckFuture, len(events))
	for i, e := range events {
		msg := &natsgo.Msg{Subject: e.Destination, Data: e.Payload, Header: natsgo.Header{"ce-id": []string{e.Headers["ce-id"]}}}
		ack, err := js.PublishMsgAsync(msg, jetstream.WithMsgID(e.DedupID))
		if err != nil {
			t.Fatal(err)
		}
		acks[i] = ack
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			t.Fatal(err)
		}
	}
}

func contextWithTimeout(t testing.TB, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}

// watch subscribes without JetStream; the result says what came, after a round
// trip that everything published before has passed.
func watch(t testing.TB, url string, subjects ...string) func() []string {
	t.Helper()
	nc, err := natsgo.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	var subs []*natsgo.Subscription
	for _, s := range subjects {
		sub, err := nc.SubscribeSync(s)
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, sub)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return func() (got []string) {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, sub := range subs {
			for {
				msg, err := sub.NextMsg(time.Millisecond)
				if err != nil {
					break
				}
				got = append(got, msg.Subject)
			}
		}
		return got
	}
}
