package nats

import (
	"errors"
	"fmt"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/wire"
)

const (
	headerContentType = "content-type"
	// headerEncoded names the user's headers whose values stand percent-encoded.
	headerEncoded = "postrider-encoded"
	// maxControlLine is the server's default limit of a protocol line: subject,
	// reply subject and sizes. It closes the connection of who exceeds it.
	maxControlLine = 4096
)

// message is scratch space for one event at a time: nats.go copies a message
// into its write buffer before Publish returns, so header map and values are
// used again and a message costs no allocation here.
type message struct {
	msg    natsgo.Msg
	values []string
}

// publish spells an event and hands it to the connection. The error is final for
// this try, and marked.
func (m *message) publish(nc *natsgo.Conn, e *relay.Event, reply string) error {
	if err := m.spell(e, reply); err != nil {
		return relay.Permanent(fmt.Errorf("publish to nats, topic %q: %w", e.Topic, err))
	}
	err := nc.PublishMsg(&m.msg)
	m.msg.Data = nil // the event's payload is not ours to keep
	if err != nil {
		return sendError(e, err)
	}
	return nil
}

func (m *message) spell(e *relay.Event, reply string) error {
	if err := checkSubject(e.Destination, len(reply)); err != nil {
		return err
	}
	m.msg.Subject, m.msg.Reply, m.msg.Data = e.Destination, reply, e.Payload
	if m.msg.Header == nil {
		m.msg.Header = make(natsgo.Header, 16)
	}
	clear(m.msg.Header)
	m.values = m.values[:0]

	var encoded string
	for name, value := range e.Headers {
		if err := checkName(name); err != nil {
			return err
		}
		switch {
		case wire.IsAttribute(name):
			value = wire.EncodeValue(value)
		case !carries(value):
			value = wire.EncodeValue(value)
			encoded = join(encoded, name)
		}
		m.set(name, value)
	}
	if e.ContentType != "" {
		value := e.ContentType
		if !carries(value) {
			value = wire.EncodeValue(value)
			encoded = join(encoded, headerContentType)
		}
		m.set(headerContentType, value)
	}
	if encoded != "" {
		m.set(headerEncoded, encoded)
	}
	if e.DedupID != "" {
		m.set(natsgo.MsgIdHdr, wire.EncodeValue(e.DedupID))
	}
	return nil
}

func (m *message) set(name, value string) {
	m.values = append(m.values, value)
	n := len(m.values)
	m.msg.Header[name] = m.values[n-1 : n : n]
}

// checkName refuses names that cannot be a header of a NATS message (nats.go
// leaves them out without a word), and those by which a publisher commands the
// server: "Nats-Rollup: all" in an event would empty the stream.
func checkName(name string) error {
	if len(name) >= 5 && strings.EqualFold(name[:5], "nats-") {
		return fmt.Errorf("header %q: the server takes it as a command", name)
	}
	if name == "" || strings.EqualFold(name, headerEncoded) {
		return fmt.Errorf("header %q: not a name that NATS carries", name)
	}
	for i := range len(name) {
		if !tokenByte[name[i]] {
			return fmt.Errorf("header %q: not a name that NATS carries", name)
		}
	}
	return nil
}

// carries reports whether a value arrives as it is: one line, without blanks at
// its ends, which readers trim, and without control characters.
func carries(value string) bool {
	if value == "" {
		return true
	}
	if value[0] == ' ' || value[len(value)-1] == ' ' {
		return false
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func join(list, name string) string {
	if list == "" {
		return name
	}
	return list + "," + name
}

// tokenByte is RFC 7230's tchar.
var tokenByte = func() (t [256]bool) {
	for _, c := range "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		t[c] = true
	}
	return t
}()

var errSystemSubject = errors.New("subject of the server itself, where events are never published")
