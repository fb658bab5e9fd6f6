package nats

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/postrider/postrider/wire"
)

// EscapeToken implements [relay.Addresser]. It percent-encodes what NATS forbids
// or reads in a token: blanks, control characters, ".", "*", ">", "%" itself,
// broken UTF-8, a leading "$" (the server's own subjects), and the token
// "_INBOX". The empty token becomes a single "%", which nothing else does.
func (b *Broker) EscapeToken(token string) string {
	if token == "" {
		return "%"
	}
	if plain(token) {
		return token
	}
	valid := utf8.ValidString(token)
	var s strings.Builder
	s.Grow(len(token) + 16)
	for i := range len(token) {
		c := token[i]
		if forbidden(c) || c >= 0x80 && !valid || i == 0 && (c == '$' || token == "_INBOX") {
			wire.Percent(&s, c)
		} else {
			s.WriteByte(c)
		}
	}
	return s.String()
}

// UnescapeToken undoes EscapeToken, for consumers.
func UnescapeToken(token string) string {
	if token == "%" {
		return ""
	}
	return wire.DecodeValue(token)
}

// EscapeTopic implements [relay.TopicAddresser]: the dots of a topic separate the
// tokens of its subject, so that "orders.created" is found by "orders.*".
func (b *Broker) EscapeTopic(topic string) string {
	if !strings.Contains(topic, ".") {
		return b.EscapeToken(topic)
	}
	tokens := strings.Split(topic, ".")
	for i, t := range tokens {
		tokens[i] = b.EscapeToken(t)
	}
	return strings.Join(tokens, ".")
}

func plain(token string) bool {
	if token[0] == '$' || token == "_INBOX" {
		return false
	}
	for i := range len(token) {
		if forbidden(token[i]) || token[i] >= 0x80 {
			return token[i] >= 0x80 && utf8.ValidString(token) && !strings.ContainsFunc(token, func(r rune) bool {
				return r < 0x80 && forbidden(byte(r))
			})
		}
	}
	return true
}

func forbidden(c byte) bool {
	return c <= ' ' || c == 0x7f || c == '.' || c == '*' || c == '>' || c == '%'
}

// checkSubject refuses what would confuse the protocol or command the server.
// Templates that escape their tokens never make such a subject, but for its
// length; constants of a configuration may.
func checkSubject(subject string, reply int) error {
	switch {
	case subject == "":
		return errors.New("subject: empty")
	case len(subject)+reply+32 > maxControlLine:
		return errors.New("subject: longer than a line of the protocol")
	case strings.HasPrefix(subject, "$JS."), strings.HasPrefix(subject, "$SYS."), strings.HasPrefix(subject, "_INBOX."),
		subject == "$JS", subject == "$SYS", subject == "_INBOX":
		return errSystemSubject
	}
	token := 0 // length of the current one
	for i := range len(subject) {
		switch c := subject[i]; {
		case c == '.':
			if token == 0 {
				return errors.New("subject: empty token")
			}
			token = 0
			continue
		case c <= ' ' || c == 0x7f:
			return errors.New("subject: blank or control character")
		case c == '*' || c == '>':
			return errors.New("subject: wildcard")
		}
		token++
	}
	if token == 0 {
		return errors.New("subject: empty token")
	}
	return nil
}
