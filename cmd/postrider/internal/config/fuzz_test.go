package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
)

// FuzzRedactURL: wherever an @ ends a password, whatever characters it is made
// of, nothing of it is left.
func FuzzRedactURL(f *testing.F) {
	for _, p := range []string{"s3cr3t-canary", "a/b#c?d", "p@ss:w0rd,x", "%41%zz", "nats://", " ", "x,nats://y", "]:[", "/?&=;"} {
		f.Add("postgres", "user", p, "host:5432/db?sslmode=require")
		f.Add("nats", "", p, "h1:4222,nats://h2:4222")
	}
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		if strings.ContainsAny(user, ":@/?#,") || len(password) < 4 || strings.Contains(rest, "@") {
			t.Skip()
		}
		text := scheme + "://" + user + ":" + password + "@" + rest
		shown := RedactURL(text)
		for _, other := range []string{scheme, user, rest, mask, "://" + mask, "://" + user + ":" + mask + "@"} {
			if strings.Contains(other, password) || strings.Contains(shown, password) && strings.Contains(scheme+"://"+user+":"+mask+"@"+rest, password) {
				t.Skip() // the password is part of what may be shown
			}
		}
		if strings.Contains(shown, password) {
			t.Errorf("password %q is shown in %q", password, shown)
		}
	})
}

// FuzzLoad: no text makes the decoder panic, and no problem spans a terminal's
// control characters.
func FuzzLoad(f *testing.F) {
	f.Add(small)
	f.Add("databases: 1\nbrokers: {a: b}\nrelay: [x]\nlog: {level: ${A}}")
	f.Add("a: &a [*a]\n1: 2\n? [x]\n: y")
	files, _ := filepath.Glob("testdata/problems/*.txt")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tree, err := yaml.Parser().Unmarshal([]byte(text))
		if err != nil {
			_ = yamlProblem(err)
			return
		}
		problems := &Problems{}
		value := expand(tree, "", lookupIn(nil), problems)
		c := new(Config)
		decode(value, reflect.ValueOf(c).Elem(), "", problems)
		c.completeRoutes(problems)
		c.checkRoutes(problems)
		if err := problems.err(); err != nil && strings.ContainsAny(err.Error(), "\x00\x1b\r") {
			t.Errorf("control characters in %q", err.Error())
		}
		if _, err := c.Redacted().YAML(); err != nil {
			t.Error(err)
		}
	})
}
