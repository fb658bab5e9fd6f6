package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// mask stands for a secret.
const mask = "***"

// RedactURL returns a URL that may be shown: without password, without a user
// that is a token, without secret options. A text that is not clearly a URL is
// masked as a whole: redaction must err on the side of hiding.
func RedactURL(text string) string {
	parts := strings.Split(text, ",")
	for _, part := range parts {
		if !strings.Contains(part, "://") { // one URL with a comma in it
			return redactOne(text)
		}
	}
	for i := range parts { // a list of servers
		parts[i] = redactOne(parts[i])
	}
	return strings.Join(parts, ",")
}

func redactOne(text string) string {
	scheme, err := SchemeOf(text)
	if err != nil || text == "" {
		return mask
	}
	u, err := url.Parse(text)
	if err != nil {
		return scheme + ":" + mask
	}
	// An @ or a second :// outside the user's place means that a password with
	// unescaped characters was taken for a host, a path or a query.
	rest := u.Host + u.Path + u.Opaque + u.RawQuery + u.Fragment
	if u.Host != "" && strings.ContainsAny(rest, "@") || strings.Contains(rest, "://") {
		return scheme + "://" + mask
	}
	if scheme != "file" && scheme != "sqlite" && scheme != "stdout" && u.Host == "" && u.Scheme != "" &&
		strings.Contains(rest, "@") {
		return scheme + ":" + mask
	}
	var out strings.Builder
	out.WriteString(scheme + ":")
	if u.Host != "" || strings.HasPrefix(text[len(scheme)+1:], "//") {
		out.WriteString("//")
	}
	if u.User != nil {
		_, hasPassword := u.User.Password()
		switch {
		case hasPassword:
			out.WriteString(url.User(u.User.Username()).String() + ":" + mask + "@")
		case scheme == "postgres" || scheme == "postgresql":
			out.WriteString(u.User.String() + "@")
		default: // nats://TOKEN@host
			out.WriteString(mask + "@")
		}
	}
	out.WriteString(u.Host + u.EscapedPath() + u.Opaque)
	if u.RawQuery != "" {
		out.WriteString("?" + redactQuery(scheme, u.RawQuery))
	}
	return out.String()
}

// redactQuery masks what is secret by its name, and in the URL of a webhook
// everything: what its query means is known to its server only.
func redactQuery(scheme, query string) string {
	if isWebhook(scheme) {
		return mask
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		plain, err := url.QueryUnescape(name)
		if err != nil {
			pairs[i] = mask
		} else if IsSecretName(plain) {
			pairs[i] = name + "=" + mask
		}
	}
	return strings.Join(pairs, "&")
}

func isWebhook(scheme string) bool { return scheme == "http" || scheme == "https" }

// IsSecretName reports whether an option of this name may hold a secret. The
// name of a file that holds one is no secret.
func IsSecretName(name string) bool {
	name = strings.ToLower(name)
	if strings.HasSuffix(name, "_file") {
		return false
	}
	return slices.ContainsFunc([]string{
		"pass", "pwd", "secret", "token", "key", "seed", "cred", "auth", "sig", "jwt",
	}, func(word string) bool { return strings.Contains(name, word) })
}

// Redacted returns a copy of the configuration that may be shown.
func (c *Config) Redacted() *Config {
	copied := *c
	copied.Databases = slices.Clone(c.Databases)
	for i := range copied.Databases {
		redactURLs(reflect.ValueOf(&copied.Databases[i]).Elem())
	}
	copied.Brokers = slices.Clone(c.Brokers)
	for i := range copied.Brokers {
		b := &copied.Brokers[i]
		redactURLs(reflect.ValueOf(b).Elem())
		b.Options, _ = redactTree(b.Options).(map[string]any)
	}
	copied.Routes = slices.Clone(c.Routes)
	for i := range copied.Routes { // a header may carry a token to a webhook
		headers := make(map[string]string, len(copied.Routes[i].Headers))
		for name := range copied.Routes[i].Headers {
			headers[name] = mask
		}
		copied.Routes[i].Headers = headers
	}
	return &copied
}

// redactURLs redacts the fields of a section whose tags say that they are URLs.
func redactURLs(section reflect.Value) {
	for _, f := range fieldsOf(section.Type()) {
		if slot := section.Field(f.index); f.url && slot.String() != "" {
			slot.SetString(RedactURL(slot.String()))
		}
	}
}

// redactTree masks the values of options whose names say that they are secret.
func redactTree(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			if out[name] = redactTree(item); IsSecretName(name) {
				out[name] = mask
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = redactTree(v[i])
		}
		return out
	case string:
		if strings.Contains(v, "://") {
			return RedactURL(v)
		}
	}
	return value
}
