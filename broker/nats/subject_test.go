package nats

import (
	"strings"
	"testing"
)

func TestEscapeToken(t *testing.T) {
	t.Parallel()
	b := &Broker{}
	for in, want := range map[string]string{
		"":         "%",
		"order-17": "order-17",
		"a b":      "a%20b",
		"a.b":      "a%2Eb",
		"*":        "%2A",
		">":        "%3E",
		"%":        "%25",
		"100%25":   "100%2525",
		"$JS":      "%24JS",
		"a$":       "a$",
		"_INBOX":   "%5FINBOX",
		"\r\n\t":   "%0D%0A%09",
		"..":       "%2E%2E",
		"späti":    "späti",
		"späti 2":  "späti%202",
		"\xff":     "%FF",
	} {
		if got := b.EscapeToken(in); got != want {
			t.Errorf("EscapeToken(%q) = %q, want %q", in, got, want)
		}
	}
	for in, want := range map[string]string{
		"orders.created": "orders.created",
		"$JS.API.INFO":   "%24JS.API.INFO",
		"a..b":           "a.%.b",
		"a b.*":          "a%20b.%2A",
	} {
		if got := b.EscapeTopic(in); got != want {
			t.Errorf("EscapeTopic(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzEscapeToken(f *testing.F) {
	for _, s := range []string{"", " ", "a.b", "%", "%%", "%41", "$SYS", "_INBOX", "ü", "\x00", "*>"} {
		f.Add(s)
	}
	b := &Broker{}
	f.Fuzz(func(t *testing.T, token string) {
		escaped := b.EscapeToken(token)
		if got := UnescapeToken(escaped); got != token {
			t.Errorf("%q became %q and then %q", token, escaped, got)
		}
		if strings.Contains(escaped, ".") {
			t.Errorf("%q became two tokens: %q", token, escaped)
		}
		if len(token) < 1000 {
			if err := checkSubject(escaped, 0); err != nil {
				t.Errorf("%q became %q: %v", token, escaped, err)
			}
		}
	})
}
