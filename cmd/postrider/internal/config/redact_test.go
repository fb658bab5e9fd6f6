package config

import (
	"strings"
	"testing"
)

func TestRedactURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"postgres://app:hunter2@db:5432/shop?sslmode=require": "postgres://app:***@db:5432/shop?sslmode=require",
		"postgres://app@db/shop":                              "postgres://app@db/shop",
		"postgres://db/shop?user=app&password=hunter2":        "postgres://db/shop?user=app&password=***",
		"postgres://app:hun/ter2@db/shop":                     "postgres://***",
		"nats://hunter2@h:4222":                               "nats://***@h:4222",
		"nats://a:hunter2@h1:4222,nats://a:hunter2@h2:4222":   "nats://a:***@h1:4222,nats://a:***@h2:4222",
		"sqlite:/var/lib/shop.db":                             "sqlite:/var/lib/shop.db",
		"sqlite:shop.db":                                      "sqlite:shop.db",
		"file:out@home.jsonl":                                 "file:out@home.jsonl",
		"https://h/hook?sig=hunter2&v=1":                      "https://h/hook?***",
		"stdout:":                                             "stdout:",
		"host=db password=hunter2":                            "***",
	} {
		got := RedactURL(in)
		if strings.Contains(got, "hunter2") || strings.Contains(got, "ter2") {
			t.Errorf("RedactURL(%q) shows the password: %q", in, got)
		}
		if want == "postgres://***" && strings.HasPrefix(got, "postgres:") && strings.HasSuffix(got, mask) {
			continue // how much of a broken URL is hidden is not promised
		}
		if got != want {
			t.Errorf("RedactURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestScrub_FindsEverySpelling(t *testing.T) {
	t.Parallel()
	var s Scrubber
	s.AddURL("postgres://app:hunter%2F2@db/shop?sslpassword=second")
	s.AddURL("nats://tokencanary@h1:4222,nats://h2")
	s.AddURL("postgres://app:odd/pass@db/shop")
	got := s.Scrub("hunter/2 hunter%2F2 second tokencanary odd/pass app db")
	if got != "*** *** *** *** *** app db" {
		t.Errorf("got %q", got)
	}
}

func TestScrubValues_KeepsNames(t *testing.T) {
	t.Parallel()
	var s Scrubber
	s.AddURL("postgres://app:relay@db/shop")
	in := "{\n  \"error\": \"no relay\",\n  \"relay\": [\n    \"relay\"\n  ]\n}\nrelay:\n    - relay: the relay: here\n"
	want := "{\n  \"error\": \"no ***\",\n  \"relay\": [\n    \"***\"\n  ]\n}\nrelay:\n    - relay: the ***: here\n"
	if got := s.ScrubValues(in); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRedacted_HidesOptionsAndHeaders(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
databases: [{url: "postgres://u:hunter2@h/d", direct_url: "postgres://u:hunter2@h/d"}]
brokers: [{url: "nats://u:hunter2@h?token=hunter2", options: {password: hunter2, creds_file: /etc/x, nested: {seed: hunter2}}}]
routes: [{headers: {authorization: hunter2}}]
`)
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.Redacted().YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), "/etc/x") {
		t.Errorf("got\n%s", text)
	}
	if !strings.Contains(c.Databases[0].URL, "hunter2") {
		t.Error("the original was changed")
	}
}
