package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

// Connect returns the URL to connect with. It reads url_file anew each time, so
// that a rotated password needs no restart.
func (d Database) Connect() (string, error) { return secretOr(d.URL, d.URLFile) }

// ConnectDirect is Connect for direct_url, and "" if there is none.
func (d Database) ConnectDirect() (string, error) { return secretOr(d.DirectURL, d.DirectURLFile) }

// Connect returns the URL to connect with, without the options in its query. It
// reads url_file anew each time.
func (b Broker) Connect() (string, error) {
	text, err := secretOr(b.URL, b.URLFile)
	bare, _, _ := strings.Cut(text, "?")
	return bare, err
}

// AllOptions are the broker's options as texts, together with those in its
// URL's query, which count where options does not say otherwise. A list is
// joined with commas.
func (b Broker) AllOptions() (map[string]string, error) {
	text, err := secretOr(b.URL, b.URLFile)
	if err != nil {
		return nil, err
	}
	_, query, _ := strings.Cut(text, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("url: wrong percent-encoding in its options")
	}
	all := make(map[string]string, len(b.Options)+len(values))
	for name, value := range values {
		all[name] = strings.Join(value, ",")
	}
	for name, value := range b.Options {
		if all[name], err = optionText(value); err != nil {
			return nil, fmt.Errorf("options.%s: %w", printable(name), err)
		}
	}
	return all, nil
}

func optionText(value any) (string, error) {
	switch v := value.(type) {
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			text, err := optionText(v[i])
			if err != nil {
				return "", err
			}
			texts[i] = text
		}
		return strings.Join(texts, ","), nil
	case map[string]any:
		return "", errors.New("a group of fields instead of a value")
	}
	return fmt.Sprint(value), nil
}

func secretOr(text, file string) (string, error) {
	if file == "" {
		return text, nil
	}
	return readSecret(file)
}

// readSecret reads a file that holds one secret. Editors and secret stores end
// files with a line feed that belongs to no secret.
func readSecret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", file)
	}
	return secret, nil
}

// reason is a file error without the words that the path before it says too.
func reason(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Path + ": " + p.Err.Error()
	}
	return err.Error()
}

// SchemeOf returns the scheme of a URL: the part before the first colon. The
// error never shows the URL.
func SchemeOf(text string) (string, error) {
	scheme, _, found := strings.Cut(text, ":")
	if !found || scheme == "" {
		return "", errors.New("not a URL (write SCHEME://... or SCHEME:...)")
	}
	for _, c := range scheme {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.", c) {
			return "", errors.New("not a URL (write SCHEME://... or SCHEME:...)")
		}
	}
	return strings.ToLower(scheme), nil
}
