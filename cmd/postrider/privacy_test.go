package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv"
)

// whisper is in every part of the events of these tests that must not be shown.
// It is not the canary: what is known as a password is removed from every output,
// and would hide here that an event is shown.
const whisper = "wh1sper-of-an-event"

// secretEvent is an event of which nothing but topic, type, size and id may be
// shown: every part holds the whisper, which program and startRelay look for.
func secretEvent(topic, key string, size int) []string {
	payload := `{"mail":"` + whisper + `","more":"` + strings.Repeat("x", size) + `"}`
	return []string{"write", "--topic", topic, "--key", key, "--payload", payload, "--header", "auth=" + whisper + "-header"}
}

// secretConfig is a configuration with secrets wherever there is room for one.
func secretConfig(t *testing.T, d database, broker, format string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	text := fmt.Sprintf(`
databases: [{name: default, url: %q}]
brokers: [{name: default, url: %q}]
routes:
  - {topic: letters, on_failure: dead_letter, headers: {x-token: %[3]s}}
  - {topic: keyed, destination: "keyed.{key}"}
  - {topic: nowhere, destination: "$JS.{key}"}
  - {topic: attempts, destination: "{header.none}.{key}", max_attempts: 1}
  - {topic: "*"}
relay: {lease: 2s, publish_timeout: 1s}
log: {level: debug, format: %[4]s}
`, d.url, broker, whisper, format)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"POSTRIDER_CONFIG=" + file}
}

// withSecret is the database with the canary as the password, for PostgreSQL.
func withSecret(t *testing.T, d database) database {
	t.Helper()
	if d.pg == nil {
		return d
	}
	role := d.pg.Role(t, "SUPERUSER LOGIN")
	d.exec(t, "ALTER ROLE "+role+" PASSWORD '"+canary+"'")
	d.url = withPassword(t, testenv.As(t, d.url, role), canary)
	return d
}

// columns are what the relay wrote of errors.
func (d database) columns(t *testing.T) string {
	t.Helper()
	open := openSQLite
	if d.pg != nil {
		open = openPostgres
	}
	db, err := open(d.url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), `SELECT coalesce(last_error, '') FROM outbox
		UNION ALL SELECT cause || coalesce(last_error, '') FROM outbox_dead UNION ALL SELECT coalesce(last_error, '') FROM outbox_delivered`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		all.WriteString(text + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestS69_Guarantee10_NothingSecretIsShown: logs, metrics and error columns never
// contain payload, header values or credentials; keys are hashed unless allowed.
// program and startRelay fail the test where a secret is printed.
func TestS69_Guarantee10_NothingSecretIsShown(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{User: "app", Password: canary, MaxPayload: 8192})
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			eachKind(t, func(t *testing.T, d database) {
				d = withSecret(t, d)
				broker := "nats://app:" + canary + "@" + server.Addr() + "?create_stream=true"
				env := secretConfig(t, d, broker, format)
				must(t, env, "migrate", "up")
				must(t, env, "migrate", "status")
				must(t, env, "config", "print")
				must(t, env, "config", "check")
				for _, topic := range []string{"letters", "keyed", "nowhere", "attempts", "blocked"} {
					for _, size := range []int{9000, 1} {
						must(t, env, secretEvent(topic, whisper+" key", size)...)
						must(t, env, secretEvent(topic, "", size)...)
					}
				}
				r := startRelay(t, env)
				r.waitFor(t, "key blocked")
				r.waitFor(t, "dead letter")
				eventually(t, func() bool {
					text := d.columns(t)
					return strings.Count(text, "\n") >= 20 && strings.Contains(text, "max") && strings.Contains(text, "header")
				}, func() string { return d.columns(t) + r.errors.String() })
				admin := adminAddress(t, r)
				shown := d.columns(t)
				for _, path := range []string{"/metrics", "/healthz", "/readyz", "/progressz"} {
					_, text := get(t, "http://"+admin+path)
					shown += text
				}
				silentOn(t, "a column or the admin address", shown)
				lookAtEverything(t, append(env, "POSTRIDER_ADMIN__LISTEN="+admin))
				if code := r.stop(); code != exitFine {
					t.Errorf("exit %d", code)
				}
				program(t, env, "relay", "--once")
			})
		})
	}
}

// lookAtEverything runs the commands that look.
func lookAtEverything(t *testing.T, env []string) {
	t.Helper()
	program(t, env, "status")
	program(t, env, "status", "--json", "--max-age", "1ms")
	program(t, env, "why", "--key", whisper+" key")
	program(t, env, "why", "--key", whisper+" key", "--json")
	program(t, env, "why", "--key", whisper+"-unknown")
	for i := range 20 {
		program(t, env, "why", fmt.Sprint(i+1))
		program(t, env, "why", fmt.Sprint(i+1), "--json")
	}
}

// TestS69_Guarantee10_NothingSecretIsShownInAnOutage: what cannot be reached, or
// refuses a login, or is written wrongly, does not quote its URL.
func TestS69_Guarantee10_NothingSecretIsShownInAnOutage(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		d = withSecret(t, d)
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), secretEvent("orders", whisper+" key", 1)...)
		server := testenv.StartNATS(t, testenv.NATSConfig{User: "app", Password: "right"})
		closed := closedPort(t)
		for name, broker := range map[string]string{
			"broker down":            "nats://app:" + canary + "@" + closed,
			"broker's password":      "nats://app:" + canary + "@" + server.Addr(),
			"broker's token":         "nats://" + canary + "@" + server.Addr(),
			"broker without streams": "nats://app:right@" + server.Addr(),
			"no folder":              "file:" + filepath.Join(t.TempDir(), "none", "out"),
		} {
			t.Run(name, func(t *testing.T) { // one after the other: relays share lanes
				for _, format := range []string{"text", "json"} {
					env := append(secretConfig(t, d, broker, format), "POSTRIDER_ADMIN__LISTEN=127.0.0.1:0")
					if r := program(t, env, "relay", "--once"); r.code != exitFailed {
						t.Errorf("exit %d\n%s", r.code, r.shown())
					}
				}
				r := startRelay(t, secretConfig(t, d, broker, "json"), "--log-format", "text")
				r.waitFor(t, "health checks")
				program(t, secretConfig(t, d, broker, "json"), "status", "--json")
				r.stop()
			})
		}
		silentOn(t, "a column", d.columns(t))
	})
	for name, url := range map[string]string{
		"database down":        "postgres://app:" + canary + "@" + closedPort(t) + "/d",
		"secret in the query":  "postgres://app@" + closedPort(t) + "/d?password=" + canary,
		"bad port":             "postgres://app:" + canary + "@h:port/d",
		"bad escape":           "postgres://app:%zz" + canary + "@h/d",
		"unescaped":            "postgres://app:a/b?" + canary + "@h/d",
		"bad option":           "postgres://app:" + canary + "@h/d?sslmode=" + canary,
		"unknown adapter":      "oracle://app:" + canary + "@h/d?token=" + canary,
		"no URL":               canary,
		"keyword values":       "host=h password=" + canary,
		"TLS without a server": "postgres://app:" + canary + "@" + closedPort(t) + "/d?sslmode=require",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hurry(t, []string{"POSTRIDER_DATABASE=" + url, "POSTRIDER_BROKER=stdout:"})
		})
	}
	for name, url := range map[string]string{
		"broker's query":        "nats://app:" + canary + "@h?token=" + canary,
		"broker's bad option":   "nats://app:" + canary + "@h?create_stream=maybe&" + canary + "=1",
		"broker's bad escape":   "nats://app:%zz" + canary + "@h",
		"broker's bad port":     "nats://app:" + canary + "@h:port",
		"webhook's query":       "https://h/hook?sig=" + canary,
		"webhook's other query": "https://h/hook?" + canary + "=1&x=" + canary,
		"no URL of a broker":    canary,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFileDB(t)
			must(t, d.env(), "migrate", "up")
			hurry(t, append(d.env(), "POSTRIDER_BROKER="+url))
		})
	}
	t.Run("unknown table", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, d database) {
			d = withSecret(t, d)
			if d.pg == nil {
				d.createFile(t)
			}
			hurry(t, append(d.env(), "POSTRIDER_BROKER=stdout:"))
			program(t, d.env(), secretEvent("orders", whisper, 1)...)
		})
	})
	t.Run("refused by the table", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, d database) {
			must(t, d.env(), "migrate", "up")
			d.exec(t, "ALTER TABLE outbox RENAME TO theirs")
			d.exec(t, "CREATE TABLE outbox (event_id varchar(3) CHECK (event_id = 'x'), topic text, key text, payload text)")
			program(t, d.env(), secretEvent("orders", whisper, 1)...)
			program(t, d.env(), secretEvent("orders", strings.Repeat(whisper, 200), 1)...)
			program(t, append(d.env(), "POSTRIDER_BROKER=stdout:"), "relay", "--once")
		})
	})
}

// hurry runs every command on what cannot work.
func hurry(t *testing.T, env []string) {
	t.Helper()
	env = append(env, "POSTRIDER_LOG__LEVEL=debug", "POSTRIDER_ADMIN__LISTEN=127.0.0.1:0")
	for _, args := range [][]string{
		{"config", "check"},
		{"config", "print"},
		{"migrate", "status"},
		{"status"},
		{"status", "--json"},
		{"why", "1"},
		{"write", "--topic", "t", "--payload", whisper},
		{"relay", "--once"},
	} {
		program(t, env, args...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	programUntil(ctx, t, "", env, "relay")
}
