package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var known = Known{
	Databases: []string{"postgres", "sqlite"},
	Brokers:   []string{"file", "nats", "stdout"},
	Metrics:   map[string][]string{"outbox_pending_events": {"database", "topic"}},
}

// load loads a configuration from a text alone, unless told otherwise.
func load(t *testing.T, text string, change ...func(*Sources)) (*Config, error) {
	t.Helper()
	s := Sources{File: filepath.Join(t.TempDir(), "postrider.yaml")}
	if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(&s)
	}
	return Load(s, known)
}

func withEnv(vars ...string) func(*Sources) { return func(s *Sources) { s.Env = vars } }

// TestProblems has one file per case: a configuration and what is said of it.
func TestProblems(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/problems/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(text), "-- want --\n")
			if !found {
				t.Fatalf("%s has no line -- want --", file)
			}
			yaml := strings.TrimPrefix(input, "-- input --\n")
			_, err = load(t, yaml, withEnv("PORT=hunter22", "EMPTY="))
			got := "fine\n"
			if err != nil {
				_, said, _ := strings.Cut(err.Error(), "postrider.yaml: ")
				got = said + "\n"
			}
			if *update {
				if err := os.WriteFile(file, []byte(input+"-- want --\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("a secret is shown: %s", got)
			}
		})
	}
}

const small = `
databases: [{name: main, url: "sqlite:a.db"}]
brokers: [{name: out, url: "file:b.jsonl"}]
`

func TestLoad_FillsDefaults(t *testing.T) {
	t.Parallel()
	c, err := load(t, small)
	if err != nil {
		t.Fatal(err)
	}
	d := c.Databases[0]
	if d.Retention.String() != "24h" || d.Prefix != "outbox" || d.Claim != "lanes" || d.PollInterval.String() != "500ms" {
		t.Errorf("database defaults: %+v", d)
	}
	if c.Relay.Lease.String() != "10s" || c.Relay.Memory.String() != "64MiB" || c.Admin.Listen != "127.0.0.1:9464" {
		t.Errorf("defaults: %+v %+v", c.Relay, c.Admin)
	}
	if len(c.Routes) != 1 || c.Routes[0].Topic != "*" || c.Routes[0].Broker != "out" {
		t.Errorf("implicit route: %+v", c.Routes)
	}
}

func TestLoad_FlagOverEnvironmentOverFile(t *testing.T) {
	t.Parallel()
	text := small + "relay: {lease: 11s, publish_timeout: 1s}\nlog: {level: \"${LEVEL:-warn}\"}\n"
	c, err := load(t, text, withEnv(
		"POSTRIDER_RELAY__LEASE=30s",
		"POSTRIDER_DATABASES__0__RETENTION=0s",
		"POSTRIDER_DATABASE=sqlite:env.db",
		"POSTRIDER_BROKER=file:env.jsonl",
		"POSTRIDER_SERVICE_HOST=10.0.0.1",
		"LEVEL=debug",
	), func(s *Sources) { s.Broker = "stdout:" })
	if err != nil {
		t.Fatal(err)
	}
	d := c.Databases[0]
	if c.Relay.Lease.String() != "30s" || c.Relay.PublishTimeout.String() != "1s" || d.Retention != 0 || c.Log.Level != "debug" {
		t.Errorf("environment over file: %+v %v %v", c.Relay, d.Retention, c.Log.Level)
	}
	if d.URL != "sqlite:env.db" || d.Name != "main" {
		t.Errorf("POSTRIDER_DATABASE beside a file: %+v", d)
	}
	if len(c.Brokers) != 2 || c.Brokers[1].URL != "stdout:" || c.Brokers[1].Name != "default" || c.Routes[0].Broker != "default" {
		t.Errorf("--broker beside a file: %+v %+v", c.Brokers, c.Routes)
	}
}

func TestLoad_FlagsSuffice(t *testing.T) {
	t.Parallel()
	c, err := Load(Sources{Database: "sqlite:a.db", Broker: "nats://h?create_stream=true", Search: []string{"no-such-file"}}, known)
	if err != nil {
		t.Fatal(err)
	}
	url, err := c.Brokers[0].Connect()
	options, err2 := c.Brokers[0].AllOptions()
	if err != nil || err2 != nil || url != "nats://h" || options["create_stream"] != "true" {
		t.Errorf("%q %v %v %v", url, options, err, err2)
	}
	if c.Databases[0].Name != "default" || len(c.Routes) != 1 {
		t.Errorf("%+v", c)
	}
}

func TestConnect_ReadsTheFileAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "url")
	for _, url := range []string{"postgres://u:one@h/d", "postgres://u:two@h/d"} {
		if err := os.WriteFile(file, []byte(url+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := (Database{URLFile: file}).Connect(); err != nil || got != url {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestFields: each field has a name and a sentence, and its default is one of
// its values, so that nobody has to remember to add it elsewhere.
func TestFields(t *testing.T) {
	t.Parallel()
	var walk func(reflect.Type, string)
	walk = func(s reflect.Type, path string) {
		for _, f := range fieldsOf(s) {
			at := join(path, f.name)
			if f.name == "" || !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s.%s: no name or no sentence", path, s.Field(f.index).Name)
			}
			inner := s.Field(f.index).Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(inner, at)
			}
			if err := setText(reflect.New(s.Field(f.index).Type).Elem(), f.byDefault); err != nil {
				t.Errorf("%s: default %q: %v", at, f.byDefault, err)
			}
		}
	}
	walk(reflect.TypeFor[Config](), "")
}

func TestYAML_CanBeReadAgain(t *testing.T) {
	t.Parallel()
	c, err := load(t, small+"routes: [{topic: 'a.*', headers: {x: y}}]\nmetrics: {aliases: {rows: {name: outbox_pending_events, labels: {t: topic}}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	again, err := load(t, string(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("got %+v\nwant %+v\nfrom %s", again, c, text)
	}
}

// TestDocs: docs/configuration.md names every field and its default.
func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections() {
		if !strings.Contains(string(text), "## "+section+"\n") {
			t.Errorf("docs/configuration.md has no section %s", section)
		}
	}
	var walk func(reflect.Type)
	walk = func(s reflect.Type) {
		for _, f := range fieldsOf(s) {
			inner := s.Field(f.index).Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Map {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				walk(inner)
			}
			if !strings.Contains(string(text), f.name) || !strings.Contains(string(text), f.byDefault) {
				t.Errorf("docs/configuration.md does not name %s with its default %q", f.name, f.byDefault)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

// The command refuses a destination if and only if the relay would.
func TestDestination(t *testing.T) {
	t.Parallel()
	for destination, problem := range map[string]string{
		"{topic}.{key}":   "",
		"a{{b}}.{topic}":  "",
		"{header.tenant}": "",
		"{key}}":          "} without {",
		"{nobody}":        "unknown token {nobody}",
		"{key":            "{ without }",
	} {
		_, err := load(t, `{databases: [{url: "sqlite:a"}], brokers: [{url: "stdout:"}], routes: [{destination: "`+destination+`"}]}`)
		switch {
		case problem == "" && err != nil:
			t.Errorf("%s: %v", destination, err)
		case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
			t.Errorf("%s: %v, want %s", destination, err, problem)
		}
	}
}
