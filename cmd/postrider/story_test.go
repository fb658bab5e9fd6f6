package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func TestAnEventFromWriteToDelivered(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		out := filepath.Join(t.TempDir(), "events.jsonl")
		env := append(d.env(), "POSTRIDER_BROKER=file:"+out)

		contains(t, must(t, env, "migrate", "up"), "ran 00001_outbox.sql", "ran 00002_inbox.sql")
		contains(t, must(t, env, "migrate", "up"), "nothing to do")
		contains(t, must(t, env, "migrate", "status"), "applied")

		id := strings.TrimSpace(must(t, env, "write", "--topic", "orders", "--key", "17", "--type", "order.placed",
			"--payload", `{"total": 10}`, "--header", "tenant=a", "--subject-version", "3"))
		contains(t, must(t, env, "why", id), "pending", "no relay serves this outbox")
		contains(t, must(t, env, "status"), "pending 1", "orders", "no relay")

		r := program(t, env, "relay", "--once")
		if r.code != exitFine {
			t.Fatalf("relay --once: exit %d\n%s", r.code, r.shown())
		}
		contains(t, r.errors, "delivered 1 events")
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		contains(t, string(text), id, `"topic":"orders"`, `"payload":`, "order.placed")

		contains(t, must(t, env, "why", id), "delivered")
		contains(t, must(t, env, "status"), "pending 0")
		contains(t, must(t, env, "migrate", "down"), "undone 00001_outbox.sql")
		contains(t, must(t, env, "migrate", "down"), "there are no tables")
		if r := program(t, env, "migrate", "status"); r.code != exitFailed {
			t.Errorf("status after down: exit %d\n%s", r.code, r.shown())
		}
	})
}

func TestWrite_PayloadByteForByteFromTheInput(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		payload := "\x00\xff{\n}\r\n"
		if r := programWith(t, payload, d.env(), "write", "--topic", "t"); r.code != exitFine {
			t.Fatal(r.shown())
		}
		r := program(t, d.env(), "relay", "--once", "--broker", "stdout:")
		if r.code != exitFine {
			t.Fatal(r.shown())
		}
		contains(t, r.out, "AP97Cn0NCg==") // the payload in base64
	})
}

func TestStatusJSON(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		must(t, d.env(), "write", "--topic", "orders", "--payload", "1")
		must(t, d.env(), "write", "--topic", "orders", "--payload", "1", "--at", "1h")
		var got struct {
			Databases []map[string]any `json:"databases"`
		}
		if err := json.Unmarshal([]byte(must(t, d.env(), "status", "--json", "--max-age", "5m")), &got); err != nil {
			t.Fatal(err)
		}
		one := got.Databases[0]
		for name, want := range map[string]any{
			"name": "default", "pending_events": 1.0, "held_events": 0.0, "scheduled_events": 1.0, "dead_events": 0.0,
		} {
			if one[name] != want {
				t.Errorf("%s is %v, want %v", name, one[name], want)
			}
		}
		for _, name := range []string{"topics", "relays", "lanes"} {
			if _, ok := one[name].([]any); !ok {
				t.Errorf("%s is %v, want a list", name, one[name])
			}
		}
		r := program(t, d.env(), "status", "--max-age", "0s")
		if r.code != exitFailed {
			t.Errorf("--max-age: exit %d\n%s", r.code, r.shown())
		}
		contains(t, r.errors, "error: database \"default\": the oldest pending event is", "hint: ")
	})
}

func TestWhy(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		env := append(d.env(), "POSTRIDER_ADMIN__LISTEN=off")
		must(t, env, "migrate", "up")
		write := func(args ...string) string {
			return strings.TrimSpace(must(t, env, append([]string{"write", "--topic", "orders", "--payload", "1"}, args...)...))
		}
		scheduled := write("--at", "1h")
		contains(t, must(t, env, "why", scheduled), "scheduled", "due in ")

		head, behind := write("--key", "k"), write("--key", "k")
		d.exec(t, "UPDATE outbox SET held = 'blocked', attempts = 3, last_error = 'the card expired' WHERE event_id = '"+head+"'")
		d.exec(t, "UPDATE outbox SET held = 'behind' WHERE event_id = '"+behind+"'")
		contains(t, must(t, env, "why", head), "it blocks the key after 3 attempts", "the card expired")
		contains(t, must(t, env, "why", behind), "event "+head+" before it blocks the key", "the card expired")
		contains(t, must(t, env, "why", "--key", "k"), head, "2 pending and 0 dead")

		retried := write("--key", "r")
		at := "clock_timestamp() + interval '1 hour'"
		if d.pg == nil {
			at = "(julianday('now') - 2440587.5) * 86400000 + 3600000"
		}
		d.exec(t, "UPDATE outbox SET held = 'retry', attempts = 2, last_error = 'try later', retry_at = "+at+" WHERE event_id = '"+retried+"'")
		contains(t, must(t, env, "why", retried), "it failed 2 times, next try in ", "try later")

		free := write("--key", "f")
		d.exec(t, "INSERT INTO outbox_control (kind, name, by, reason) VALUES ('topic', 'orders', 'ann', 'migration of the consumers')")
		contains(t, must(t, env, "why", free), `topic "orders" is paused by ann: migration of the consumers`)

		noRoute := slices.Concat(env, []string{"POSTRIDER_BROKER=stdout:", "POSTRIDER_ROUTES__0__TOPIC=bills.*"})
		contains(t, must(t, noRoute, "why", free), `no route takes topic "orders"`)

		d.exec(t, `INSERT INTO outbox_dead (id, event_id, generation, topic, key, content_type, created_at, queued_at, attempts, cause_class, cause)
			SELECT id, event_id, generation, topic, key, content_type, created_at, queued_at, 7, 'permanent', 'too large' FROM outbox WHERE event_id = '`+free+`'`)
		d.exec(t, "DELETE FROM outbox WHERE event_id = '"+free+"'")
		contains(t, must(t, env, "why", free), "a dead letter since", "after 7 attempts: permanent: too large")
		contains(t, must(t, env, "why", "--key", "f"), "0 pending and 1 dead")

		for _, unknown := range [][]string{{"why", outbox.NewID().String()}, {"why", "--key", "nobody"}} {
			if r := program(t, env, unknown...); r.code != exitFailed || !strings.Contains(r.errors, "hint: ") {
				t.Errorf("%v: exit %d\n%s", unknown, r.code, r.shown())
			}
		}
		var asJSON struct {
			Findings []struct {
				Event   map[string]any
				Reasons []struct{ Code string }
			}
		}
		if err := json.Unmarshal([]byte(must(t, env, "why", head, "--json")), &asJSON); err != nil {
			t.Fatal(err)
		}
		if f := asJSON.Findings; len(f) != 1 || f[0].Reasons[0].Code != "head_blocked" || f[0].Event["event_id"] != head {
			t.Errorf("%+v", asJSON)
		} else if f[0].Event["key"] != relay.HashKey("k") {
			t.Errorf("key %q, want it hashed", f[0].Event["key"])
		}
		plain := slices.Concat(env, []string{"POSTRIDER_LOG__KEYS=plain"})
		contains(t, must(t, plain, "why", head, "--json"), `"key": "k"`)
	})
}

func TestSeveralDatabases_OneDownDoesNotHideTheOther(t *testing.T) {
	t.Parallel()
	a, b := newFileDB(t), newFileDB(t)
	env := []string{
		"POSTRIDER_DATABASES__0__NAME=a", "POSTRIDER_DATABASES__0__URL=" + a.url,
		"POSTRIDER_DATABASES__1__NAME=b", "POSTRIDER_DATABASES__1__URL=" + b.url,
	}
	must(t, env, "migrate", "up", "--only", "b")
	r := program(t, env, "status")
	if r.code != exitFailed {
		t.Errorf("exit %d", r.code)
	}
	contains(t, r.out, "a: cannot be read", "b: pending 0")
	r = program(t, env, "write", "--topic", "t", "--payload", "x")
	if r.code != exitMistake {
		t.Errorf("exit %d", r.code)
	}
	contains(t, r.errors, "2 databases", "hint: name one with --only")
}

func TestRelay_ContextEndsItInOrder(t *testing.T) {
	t.Parallel()
	d := newFileDB(t)
	must(t, d.env(), "migrate", "up")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r := programUntil(ctx, t, "", append(d.env(), "POSTRIDER_BROKER=stdout:"), "relay"); r.code != exitFine {
		t.Errorf("exit %d\n%s", r.code, r.shown())
	}
}

// TestThroughAPooler: every command works behind PgBouncer in transaction mode.
func TestThroughAPooler(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	d.url = testenv.PgBouncer(t, d.pg, testenv.PgBouncerConfig{}).URL(d.url)
	env := append(d.env(), "POSTRIDER_BROKER=stdout:", "POSTRIDER_ADMIN__LISTEN=off")
	must(t, env, "migrate", "up")
	id := strings.TrimSpace(must(t, env, "write", "--topic", "t", "--key", "k", "--payload", "x", "--header", "a=b"))
	contains(t, must(t, env, "why", id), "pending")
	contains(t, must(t, env, "status"), "pending 1")
	contains(t, must(t, env, "relay", "--once"), id)
	contains(t, must(t, env, "why", id), "delivered")
	must(t, env, "migrate", "down")
}

// TestWhy_SilentRelay: a lane's owner that gives no sign of life is named as one.
func TestWhy_SilentRelay(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d database) {
		env := append(d.env(), "POSTRIDER_ADMIN__LISTEN=off", "POSTRIDER_RELAY__LEASE=1s", "POSTRIDER_RELAY__PUBLISH_TIMEOUT=500ms")
		must(t, env, "migrate", "up")
		id := strings.TrimSpace(must(t, env, "write", "--topic", "t", "--payload", "x"))
		d.exec(t, "INSERT INTO outbox_relay (instance, epoch, beat, host, version) VALUES ('killed', 1, 1, 'host-1', '1')")
		d.exec(t, "UPDATE outbox_lane SET owner = 'killed', epoch = 1")
		contains(t, must(t, env, "why", id), "relay killed on host-1, which gives no sign of life", "takes its lanes over")
		contains(t, must(t, env, "status"), "killed", "host-1")
	})
}
