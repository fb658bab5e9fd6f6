package wire

import (
	"iter"
	"strings"
)

// Respell ranges over headers in no order, with CloudEvents attributes under
// another prefix: "ce_" for Kafka, "cloudEvents:" for AMQP, "" for MQTT. Other
// names are as they are. Nothing is copied but the names that change.
func Respell(headers map[string]string, to string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, value := range headers {
			if to != prefix && strings.HasPrefix(name, prefix) {
				name = to + name[len(prefix):]
			}
			if !yield(name, value) {
				return
			}
		}
	}
}

// IsAttribute reports whether a header of a message is a CloudEvents attribute.
// Its value is encoded by the protocol's binding for CloudEvents; see
// [EncodeValue].
func IsAttribute(name string) bool { return strings.HasPrefix(name, prefix) }
