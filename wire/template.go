package wire

import (
	"errors"
	"fmt"
	"strings"
)

// Template makes a destination's name from an event: constant text and the
// tokens {topic}, {key}, {type}, {database} and {header.NAME}. "{{" and "}}"
// stand for the braces themselves. Safe for concurrent use.
type Template struct {
	text  string
	parts []part
}

// Escaper makes text from an event safe as one token of an address. It is
// relay.Addresser.
type Escaper interface{ EscapeToken(string) string }

// TopicEscaper is implemented by an Escaper that leaves in a topic what separates
// the parts of its own names, as the dots of "orders.created" on NATS. The
// developer chose the topic; a key comes from data and is escaped whole. It is
// relay.TopicAddresser.
type TopicEscaper interface{ EscapeTopic(string) string }

// ErrNoHeader is returned by Expand for an event without the header that the
// template names: a wrong address would be worse than none.
var ErrNoHeader = errors.New("header missing")

type part struct {
	kind kind
	text string // the constant, or the header's name
}

type kind uint8

const (
	constant kind = iota
	topicToken
	keyToken
	typeToken
	databaseToken
	headerToken
)

// ParseTemplate reads a template. An error names the token that is wrong.
func ParseTemplate(text string) (*Template, error) {
	if text == "" {
		return nil, errors.New("destination template: empty")
	}
	t := &Template{text: text}
	var lit strings.Builder
	for i := 0; i < len(text); {
		c := text[i]
		switch {
		case strings.HasPrefix(text[i:], "{{"), strings.HasPrefix(text[i:], "}}"):
			lit.WriteByte(c)
			i += 2
		case c == '}':
			return nil, fmt.Errorf("destination template %q: } without {", text)
		case c == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return nil, fmt.Errorf("destination template %q: { without }", text)
			}
			p, err := parseToken(text[i+1 : i+end])
			if err != nil {
				return nil, fmt.Errorf("destination template %q: %w", text, err)
			}
			t.literal(&lit)
			t.parts = append(t.parts, p)
			i += end + 1
		default:
			lit.WriteByte(c)
			i++
		}
	}
	t.literal(&lit)
	return t, nil
}

func (t *Template) literal(lit *strings.Builder) {
	if lit.Len() > 0 {
		t.parts = append(t.parts, part{constant, lit.String()})
		lit.Reset()
	}
}

func parseToken(name string) (part, error) {
	switch name {
	case "topic":
		return part{kind: topicToken}, nil
	case "key":
		return part{kind: keyToken}, nil
	case "type":
		return part{kind: typeToken}, nil
	case "database":
		return part{kind: databaseToken}, nil
	}
	if header, ok := strings.CutPrefix(name, "header."); ok && header != "" {
		return part{headerToken, header}, nil
	}
	return part{}, fmt.Errorf("token {%s}: not one of {topic}, {key}, {type}, {database}, {header.NAME}", name)
}

// String returns the text that was parsed.
func (t *Template) String() string { return t.text }

// Static reports whether all events of one topic and database have the same
// destination, so that it need be made once.
func (t *Template) Static() bool {
	for _, p := range t.parts {
		switch p.kind {
		case keyToken, typeToken, headerToken:
			return false
		}
	}
	return true
}

// Expand makes the destination of an event. esc makes each token that came from
// the event safe; nil leaves them as they are. Constant text is the operator's
// and is never escaped.
func (t *Template) Expand(e *Event, esc Escaper) (string, error) {
	if len(t.parts) == 1 { // the common "{topic}" joins nothing
		return t.parts[0].expand(e, esc)
	}
	var b strings.Builder
	for _, p := range t.parts {
		s, err := p.expand(e, esc)
		if err != nil {
			return "", fmt.Errorf("destination template %q: %w", t.text, err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func (p part) expand(e *Event, esc Escaper) (string, error) {
	var s string
	switch p.kind {
	case constant:
		return p.text, nil
	case topicToken:
		if te, ok := esc.(TopicEscaper); ok {
			return te.EscapeTopic(e.Topic), nil
		}
		s = e.Topic
	case keyToken:
		s = e.Key
	case typeToken:
		s = e.eventType()
	case databaseToken:
		s = e.Database
	case headerToken:
		v, ok := e.Headers[p.text]
		if !ok {
			return "", fmt.Errorf("header %q: %w", p.text, ErrNoHeader)
		}
		s = v
	}
	if esc == nil {
		return s, nil
	}
	return esc.EscapeToken(s), nil
}
