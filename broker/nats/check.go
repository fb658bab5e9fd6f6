package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/relay"
)

// maxChecked bounds how many streams Check looks at where it does not know which
// ones are used.
const maxChecked = 50

// Check implements [relay.Checker]. It looks at the configured stream, else at
// those that have acknowledged events, else at all of the account.
func (b *Broker) Check(ctx context.Context) ([]relay.Finding, error) {
	l, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer l.cutAfter(ctx)()
	js, err := b.jetstream(l.nc)
	if err != nil {
		return nil, err
	}
	if _, err := js.AccountInfo(ctx); errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return []relay.Finding{{Problem: "JetStream is not enabled for the broker's account", Hint: "start nats-server with -js, or enable JetStream for the account"}}, nil
	} else if err != nil {
		return nil, relay.Unavailable(fmt.Errorf("ask nats for its account: %w", err))
	}
	infos, err := b.streamInfos(ctx, js)
	if err != nil {
		return nil, relay.Unavailable(fmt.Errorf("ask nats for its streams: %w", err))
	}
	var found []relay.Finding
	for _, info := range infos {
		found = append(found, b.judge(info)...)
	}
	return found, nil
}

func (b *Broker) streamInfos(ctx context.Context, js jetstream.JetStream) ([]*jetstream.StreamInfo, error) {
	names := b.streams.names()
	if b.cfg.Stream.Name != "" {
		names = []string{b.cfg.Stream.Name}
	}
	var infos []*jetstream.StreamInfo
	for _, name := range names {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, s.CachedInfo())
	}
	if len(names) > 0 {
		return infos, nil
	}
	ctx, cancel := context.WithCancel(ctx) // ends the listing when there are too many
	defer cancel()
	list := js.ListStreams(ctx)
	for info := range list.Info() {
		infos = append(infos, info)
		if len(infos) == maxChecked {
			return infos, nil
		}
	}
	return infos, list.Err()
}

// judge says where the accept of a stream is weaker than it looks.
func (b *Broker) judge(info *jetstream.StreamInfo) []relay.Finding {
	c := info.Config
	var found []relay.Finding
	add := func(hint, format string, args ...any) {
		found = append(found, relay.Finding{Problem: fmt.Sprintf("stream %q ", c.Name) + fmt.Sprintf(format, args...), Hint: hint})
	}
	if c.Storage == jetstream.MemoryStorage {
		add("use file storage", "keeps accepted events in memory only: they are lost with its servers")
	} else if c.Replicas < 2 {
		add("set jetstream.sync_interval: always on the server, or use 3 replicas",
			"has one copy, and the server syncs it to disk every 2 minutes unless told otherwise: a power failure loses accepted events")
	}
	if c.NoAck {
		add("turn no_ack off", "acknowledges nothing, so no event counts as delivered")
	}
	if c.Sealed {
		add("publish to another stream", "is sealed and takes nothing")
	}
	if c.Retention == jetstream.InterestPolicy && info.State.Consumers == 0 {
		add("add its consumers first, or use limits retention", "drops accepted events while it has no consumer")
	}
	if c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0) {
		add("use discard: new, so that a full stream makes the relay wait", "discards its oldest events when it is full, read or not")
	}
	if w := c.Duplicates; w < b.cfg.RetryHorizon {
		add("raise duplicate_window", "knows dedup ids for %s, and an event may be sent again within %s: more duplicates for the consumers' inboxes",
			w.Round(time.Second), b.cfg.RetryHorizon)
	}
	return found
}
