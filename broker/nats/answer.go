package nats

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	natsgo "github.com/nats-io/nats.go"

	"github.com/postrider/postrider/relay"
)

var (
	ackPrefix = []byte(`{"stream":"`)
	ackSeq    = []byte(`"seq":`)
	ackError  = []byte(`"error"`)
)

// answer turns what came to an event's reply subject into its outcome.
//
// A duplicate counts as accepted: the server has stored the event before, under
// the same dedup id. Most answers are plain acks and are told by three look-ups;
// whatever looks otherwise (a stream named error, too) is decoded.
func (b *Broker) answer(e *relay.Event, msg *natsgo.Msg) error {
	data := msg.Data
	if bytes.HasPrefix(data, ackPrefix) && bytes.Contains(data, ackSeq) && !bytes.Contains(data, ackError) {
		b.streams.note(data[len(ackPrefix):])
		return nil
	}
	if len(data) == 0 && msg.Header.Get("Status") == "503" {
		return b.noStream(e)
	}
	var ack struct {
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Error  *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &ack); err != nil {
		return fmt.Errorf("publish to nats, topic %q: an answer that is no ack", e.Topic)
	}
	if ack.Error != nil {
		return ack.Error.classify(e)
	}
	if ack.Stream == "" || ack.Seq == 0 {
		return fmt.Errorf("publish to nats, topic %q: an answer that is no ack", e.Topic)
	}
	return nil
}

func (b *Broker) noStream(e *relay.Event) error {
	hint := "create a stream that takes the topic's subjects, or set create_stream: true"
	if b.cfg.CreateStream {
		b.streams.miss(e.Destination)
		hint = "no stream takes the topic's subjects; see the option subjects"
	}
	err := fmt.Errorf("publish to nats, topic %q: no stream answers (no responders)", e.Topic)
	return relay.Unavailable(relay.Hint(err, hint))
}

// apiError is JetStream's refusal of a message.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Refusals that are about this very message and will not change. The numbers are
// part of JetStream's protocol.
const (
	errMessageExceedsMaximum = 10054
	errHeaderExceedsMaximum  = 10097
	// errDuplicateInProcess: the same dedup id is being stored at this moment
	// (a cluster's leader says so); whether it will be is not known yet.
	errDuplicateInProcess = 10158
)

// classify: a code of 5xx or 429 speaks of the stream (full, without resources,
// without a leader), so it is unavailable; any other code of 4xx speaks of the
// message and may pass later.
func (a *apiError) classify(e *relay.Event) error {
	err := fmt.Errorf("publish to nats, topic %q: refused: %s (%d)", e.Topic, a.Description, a.ErrCode)
	switch {
	case a.ErrCode == errMessageExceedsMaximum, a.ErrCode == errHeaderExceedsMaximum:
		return relay.Permanent(relay.Hint(err, "raise max_msg_size of the stream, or make the event smaller"))
	case a.ErrCode == errDuplicateInProcess:
		return err
	case a.Code >= 500, a.Code == 429, a.Code == 401, a.Code == 403, a.Code == 404:
		return relay.Unavailable(err)
	case a.Code >= 400:
		return relay.Rejected(err)
	}
	return err
}

// sendError is for what the client itself said of a message.
func sendError(e *relay.Event, err error) error {
	wrapped := fmt.Errorf("publish to nats, topic %q: %w", e.Topic, err)
	switch {
	case errors.Is(err, natsgo.ErrMaxPayload):
		// Headers count too. The limit is that of the server of this moment.
		return relay.Permanent(relay.Hint(wrapped, "raise max_payload of the server, or make the event smaller"))
	case errors.Is(err, natsgo.ErrReconnectBufExceeded), errors.Is(err, natsgo.ErrConnectionClosed),
		errors.Is(err, natsgo.ErrConnectionReconnecting), errors.Is(err, natsgo.ErrDisconnected):
		return relay.Unavailable(fmt.Errorf("publish to nats, topic %q: not connected", e.Topic))
	case errors.Is(err, natsgo.ErrHeadersNotSupported):
		return relay.Unavailable(relay.Hint(wrapped, "use nats-server 2.9 or later"))
	case errors.Is(err, natsgo.ErrBadSubject):
		return relay.Permanent(wrapped)
	}
	return wrapped // a write that broke off: of unknown fate
}
