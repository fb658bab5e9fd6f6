package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "postrider.yaml")
	text := `
databases:
  - {name: shop, url: "postgres://app:${PASSWORD}@db/shop", retention: 48h}
brokers:
  - {name: main, url: "nats://app:${PASSWORD}@nats:4222?create_stream=true", options: {max_pending: 100}}
routes:
  - {topic: "orders.*", broker: main, destination: "shop.{topic}", headers: {x-token: "${PASSWORD}"}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"PASSWORD=" + canary, "POSTRIDER_CONFIG=" + file}
	contains(t, must(t, env, "config", "check"), "1 databases, 1 brokers, 1 routes")
	printed := must(t, env, "config", "print")
	contains(t, printed, "retention: 48h", "postgres://app:***@db/shop", "lease: 10s", "max_pending: 100")

	schema := map[string]any{}
	if err := json.Unmarshal([]byte(must(t, nil, "config", "schema")), &schema); err != nil {
		t.Fatal(err)
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, section := range []string{"databases", "brokers", "routes", "relay", "admin", "metrics", "log"} {
		if properties[section] == nil {
			t.Errorf("the schema has no %s", section)
		}
	}
}

// TestConfigCheck_AsksTheAdapters: options of a broker and the rules of the
// engine are checked too, all at once.
func TestConfigCheck_AsksTheAdapters(t *testing.T) {
	t.Parallel()
	d := newFileDB(t)
	r := program(t, append(d.env(), "POSTRIDER_BROKER=nats://h?replicas=many&colour=red", "POSTRIDER_DATABASES__0__RETENTION=1ms"), "config", "check")
	if r.code != exitMistake {
		t.Errorf("exit %d", r.code)
	}
	contains(t, r.errors, `brokers[0]`, `"colour"`, `"replicas"`)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if out := must(t, nil, "version"); !strings.HasPrefix(out, "postrider ") {
		t.Errorf("got %q", out)
	}
}

func TestMigratePrint_NeedsNoDatabase(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"goose", "flyway", "atlas", "sql"} {
		contains(t, must(t, nil, "migrate", "print", "--dialect", "postgres", "--format", format, "--prefix", "mine"), `"mine_delivered"`)
	}
}
