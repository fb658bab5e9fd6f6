package config

import (
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Scrubber removes known secrets from texts that others made: errors of drivers
// and of servers, log lines. It is the second fence behind [RedactURL]; a driver
// that quotes its connection string must not be the way a password gets into a
// log. Safe for concurrent use.
type Scrubber struct {
	mu      sync.RWMutex
	secrets []string
}

// shortest is the length below which a secret is not searched for: replacing
// every "a" of a text would hide nothing and garble everything.
const shortest = 4

// AddURL remembers the secrets in a URL, in the spellings in which they may
// come back.
func (s *Scrubber) AddURL(text string) {
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(part)
		if err != nil {
			s.addUserinfo(part)
			continue
		}
		if u.User != nil {
			password, ok := u.User.Password()
			if !ok && u.Scheme != "postgres" && u.Scheme != "postgresql" {
				password = u.User.Username()
			}
			s.Add(password)
		}
		for name, values := range u.Query() {
			if IsSecretName(name) || isWebhook(u.Scheme) {
				for _, value := range values {
					s.Add(value)
				}
			}
		}
	}
}

// addUserinfo finds the password of a text that does not parse as a URL, which
// is just when drivers quote it.
func (s *Scrubber) addUserinfo(text string) {
	_, rest, _ := strings.Cut(text, "://")
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		_, password, _ := strings.Cut(rest[:at], ":")
		s.Add(password)
	}
}

// AddOptions remembers the values of a broker's options that may be secret.
func (s *Scrubber) AddOptions(options map[string]any) {
	for name, value := range options {
		switch v := value.(type) {
		case map[string]any:
			s.AddOptions(v)
		case string:
			if strings.Contains(v, "://") {
				s.AddURL(v)
			}
			if IsSecretName(name) {
				s.Add(v)
			}
		}
	}
}

// Add remembers one secret, in the spellings in which it may come back: as it
// is, percent-encoded, and inside a quoted text.
func (s *Scrubber) Add(secret string) {
	if len(secret) < shortest {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	quoted := strconv.Quote(secret)
	inJSON, _ := json.Marshal(secret) // a text always encodes
	for _, spelling := range []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret),
		url.UserPassword("", secret).String()[1:], quoted[1 : len(quoted)-1], string(inJSON[1 : len(inJSON)-1]),
	} {
		if !slices.Contains(s.secrets, spelling) {
			s.secrets = append(s.secrets, spelling)
		}
	}
	// The longest first, so that a secret within another leaves no tail of it.
	slices.SortFunc(s.secrets, func(a, b string) int { return len(b) - len(a) })
}

// names are the names of members in YAML and in indented JSON, each of which
// begins its line.
var names = regexp.MustCompile(`(?m)^ *(?:- )*(?:"[a-z_]+": |[a-z_]+:(?: |$))`)

// ScrubValues is Scrub for YAML or indented JSON that this program made: the
// names of members stay, or a password that is one of them would break the
// document.
func (s *Scrubber) ScrubValues(text string) string {
	var out strings.Builder
	from := 0
	for _, name := range names.FindAllStringIndex(text, -1) {
		out.WriteString(s.Scrub(text[from:name[0]]))
		out.WriteString(text[name[0]:name[1]])
		from = name[1]
	}
	out.WriteString(s.Scrub(text[from:]))
	return out.String()
}

// Scrub returns text with every known secret masked.
func (s *Scrubber) Scrub(text string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, secret := range s.secrets {
		text = strings.ReplaceAll(text, secret, mask)
	}
	return text
}
