package nats

import (
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/postrider/postrider/wire"
)

// Headers gives a message's headers back as the relay was given them: values
// decoded, attributes under "ce-", without what the broker and the server added.
// For consumers.
func Headers(h natsgo.Header) map[string]string {
	encoded := map[string]bool{}
	for name := range strings.SplitSeq(h.Get(headerEncoded), ",") {
		encoded[name] = true
	}
	out := make(map[string]string, len(h))
	for name, values := range h {
		if len(values) == 0 || name == headerEncoded || name == headerContentType || strings.HasPrefix(name, "Nats-") {
			continue
		}
		value := values[0]
		if wire.IsAttribute(name) || encoded[name] {
			value = wire.DecodeValue(value)
		}
		out[name] = value
	}
	return out
}

// ContentType gives a message's content type back; "" for a tombstone.
func ContentType(h natsgo.Header) string {
	value := h.Get(headerContentType)
	for name := range strings.SplitSeq(h.Get(headerEncoded), ",") {
		if name == headerContentType {
			return wire.DecodeValue(value)
		}
	}
	return value
}
