package outbox

import (
	"strings"
	"unicode/utf8"
)

// reservedHeaders are names, in lower case, that a protocol or a broker gives a
// meaning of its own. A user's header of that name would change how the event
// is routed, framed or read, or would be swallowed; which broker an event will
// meet is the relay's configuration, so every one's names are refused here.
var reservedHeaders = map[string]string{
	// HTTP, for webhooks: framing and credentials are the sender's.
	"authorization": "HTTP", "connection": "HTTP", "content-encoding": "HTTP",
	"content-length": "HTTP", "content-type": "HTTP", "cookie": "HTTP",
	"date": "HTTP", "expect": "HTTP", "host": "HTTP", "keep-alive": "HTTP",
	"te": "HTTP", "trailer": "HTTP", "transfer-encoding": "HTTP",
	"upgrade": "HTTP", "user-agent": "HTTP",
	// NATS clients take a message without a payload and with this header for a
	// status of the server.
	"status": "NATS",
	// RabbitMQ routes by CC and BCC, and closes the channel if they are text.
	"cc": "RabbitMQ", "bcc": "RabbitMQ", "x-delay": "RabbitMQ", "x-death": "RabbitMQ",
	"x-delivery-count": "RabbitMQ", "x-match": "RabbitMQ",
	// Debezium's outbox router carries the event's id here.
	"id": "the debezium format",
}

// reservedPrefixes are refused at the beginning of a name, in lower case.
var reservedPrefixes = []struct{ prefix, owner string }{
	{"ce-", "CloudEvents"},
	{"ce_", "CloudEvents"},
	{"cloudevents", "CloudEvents"},
	{"postrider", "Postrider"},
	{"nats-", "NATS"},
	{"x-first-death-", "RabbitMQ"},
	{"x-last-death-", "RabbitMQ"},
	{"x-stream-", "RabbitMQ"},
	{"aws.", "SNS and SQS"},
	{"amazon.", "SNS and SQS"},
	{"goog", "Pub/Sub"},
	{"proxy-", "HTTP"},
	{"webhook-", "webhooks"},
	{"_watermill", "the watermill format"},
}

// headerNameProblem says why name cannot be a header's name.
func headerNameProblem(name string) string {
	if name == "" {
		return "empty name"
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return "name is not an HTTP token (letters, digits and !#$%&'*+-.^_`|~)"
		}
	}
	lower := strings.ToLower(name)
	if owner, ok := reservedHeaders[lower]; ok {
		return "name is reserved by " + owner
	}
	for _, r := range reservedPrefixes {
		if strings.HasPrefix(lower, r.prefix) {
			return "prefix " + r.prefix + " is reserved by " + r.owner
		}
	}
	return ""
}

// headerValueProblem says why value cannot be a header's value.
func headerValueProblem(value string) string {
	switch {
	case !utf8.ValidString(value):
		return "value is not UTF-8"
	case strings.ContainsAny(value, "\x00\r\n"):
		return "value contains NUL, CR or LF"
	}
	return ""
}

// headerBytes is what the limit counts.
func headerBytes(headers map[string]string) int {
	n := 0
	for name, value := range headers {
		n += len(name) + len(value)
	}
	return n
}

// hasFold reports whether headers have name in any case.
func hasFold(headers map[string]string, name string) bool {
	for have := range headers {
		if strings.EqualFold(have, name) {
			return true
		}
	}
	return false
}

// isToken reports whether c is a tchar of RFC 9110.
func isToken(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
