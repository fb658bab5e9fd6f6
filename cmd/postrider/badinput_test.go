package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv"
)

// complains runs the program and checks that it ends with one line of error, a
// hint and the exit code.
func complains(t *testing.T, env []string, code int, wants []string, args ...string) {
	t.Helper()
	r := program(t, env, args...)
	if r.code != code {
		t.Errorf("postrider %s: exit %d, want %d\n%s", strings.Join(args, " "), r.code, code, r.shown())
	}
	errors := 0
	for _, line := range lines(r.errors) {
		if strings.HasPrefix(line, "error: ") {
			errors++
		}
	}
	if errors != 1 {
		t.Errorf("postrider %s: %d lines of error:\n%s", strings.Join(args, " "), errors, r.errors)
	}
	contains(t, r.errors, wants...)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	db := newFileDB(t)
	must(t, db.env(), "migrate", "up")
	for name, c := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"unknown command":      {nil, []string{"relya"}, `hint: "postrider help" lists`},
		"unknown flag":         {nil, []string{"relay", "--twice"}, "error: unknown flag: --twice"},
		"no database":          {nil, []string{"status"}, "hint: name it with --database"},
		"no dialect":           {nil, []string{"migrate", "print", "--format", "sql"}, "hint: name the dialect with --dialect"},
		"no broker":            {db.env(), []string{"relay"}, "brokers: none"},
		"wrong URL":            {nil, []string{"status", "--database", canary}, "databases[0].url: not a URL"},
		"unknown database":     {nil, []string{"status", "--database", "oracle://u:" + canary + "@h/d"}, "no adapter for oracle: in this build"},
		"unknown broker":       {db.env(), []string{"relay", "--broker", "kafka://u:" + canary + "@h"}, "no adapter for kafka: in this build (it has file, nats, stdout, tls)"},
		"unknown option":       {db.env(), []string{"relay", "--broker", "nats://u:" + canary + "@h?create_streams=true"}, `option "create_streams": unknown`},
		"malformed postgres":   {nil, []string{"status", "--database", "postgres://u:" + canary + "@h:port/d"}, "error: "},
		"no file":              {nil, []string{"status", "--config", "/no/such/postrider.yaml"}, "/no/such/postrider.yaml"},
		"no secret file":       {nil, []string{"status", "--database", "@/no/such/url"}, "databases[0].url_file: /no/such/url: no such file"},
		"no topic":             {db.env(), []string{"write", "--payload", "x"}, "--topic is missing"},
		"bad header":           {db.env(), []string{"write", "--topic", "t", "--payload", "x", "--header", canary}, "--header number 1"},
		"bad event":            {db.env(), []string{"write", "--topic", strings.Repeat("t", 300), "--payload", "x"}, "topic"},
		"bad time":             {db.env(), []string{"write", "--topic", "t", "--payload", "x", "--at", "noon"}, "--at"},
		"why nothing":          {db.env(), []string{"why"}, "hint: for example"},
		"why no id":            {db.env(), []string{"why", "seventeen"}, "neither a UUID nor"},
		"no role":              {nil, []string{"grants"}, "hint: for example"},
		"grants on SQLite":     {db.env(), []string{"grants", "--relay", "r"}, "no roles"},
		"names too long":       {db.env(), []string{"status", "--prefix", strings.Repeat("p", 80)}, "Prefix"},
		"bad age":              {db.env(), []string{"status", "--max-age", "old"}, "--max-age"},
		"unknown only":         {db.env(), []string{"status", "--only", "x"}, `no database is named "x"`},
		"unknown log format":   {append(db.env(), "POSTRIDER_BROKER=stdout:"), []string{"relay", "--log-format", "xml"}, "--log-format"},
		"unknown print format": {db.env(), []string{"migrate", "print", "--format", "liquibase"}, "liquibase"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			complains(t, c.env, exitMistake, []string{c.want}, c.args...)
		})
	}
}

func TestUnknownField(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "postrider.yaml")
	if err := os.WriteFile(file, []byte("databases: [{url: 'sqlite:a.db', retntion: 1h}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	complains(t, nil, exitMistake, []string{"databases[0].retntion: unknown field (did you mean retention?)"}, "config", "check", "--config", file)
}

// TestRelay_DatabaseThatCannotBeServed: the database answers, so trying again
// heals nothing. Exit 1, one line and a hint; nothing is lost.
func TestRelay_DatabaseThatCannotBeServed(t *testing.T) {
	t.Parallel()
	broker := "POSTRIDER_BROKER=stdout:"
	t.Run("missing table", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, d database) {
			if d.pg == nil {
				must(t, d.env(), "migrate", "up", "--prefix", "other")
			}
			complains(t, append(d.env(), broker), exitFailed, []string{"hint: "}, "relay")
		})
	})
	t.Run("foreign table", func(t *testing.T) {
		t.Parallel()
		d := newPG(t)
		d.exec(t, "CREATE TABLE outbox (id bigserial PRIMARY KEY, event_type text, payload jsonb)")
		complains(t, append(d.env(), broker), exitFailed, []string{"hint: "}, "relay")
		complains(t, d.env(), exitFailed, []string{"not a table of Postrider's", "--prefix"}, "migrate", "up")
		must(t, d.env(), "migrate", "up", "--prefix", "pr")
		must(t, append(d.env(), broker), "relay", "--once", "--prefix", "pr")
	})
	t.Run("too few rights", func(t *testing.T) {
		t.Parallel()
		d := newPG(t)
		must(t, d.env(), "migrate", "up")
		role := d.pg.Role(t, "")
		url := testenv.As(t, d.url, role)
		complains(t, []string{"POSTRIDER_DATABASE=" + url, broker}, exitFailed, []string{"hint: "}, "relay")
	})
	t.Run("row-level security", func(t *testing.T) {
		t.Parallel()
		d := newPG(t)
		must(t, d.env(), "migrate", "up")
		role := d.pg.Role(t, "")
		d.exec(t, must(t, d.env(), "grants", "--relay", role))
		d.exec(t, "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY")
		complains(t, []string{"POSTRIDER_DATABASE=" + testenv.As(t, d.url, role), broker}, exitFailed, []string{"row-level security", "hint: "}, "relay")
	})
	t.Run("schema outside N and its neighbours", func(t *testing.T) {
		t.Parallel()
		eachKind(t, func(t *testing.T, d database) {
			must(t, d.env(), "migrate", "up")
			d.exec(t, "UPDATE outbox_version SET version = 99")
			complains(t, append(d.env(), broker), exitFailed, []string{"99", "hint: "}, "relay")
		})
	})
}

// TestGrants: the printed rights are enough, and no more than that.
func TestGrants(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	must(t, d.env(), "migrate", "up")
	writer, relay, monitor := d.pg.Role(t, ""), d.pg.Role(t, ""), d.pg.Role(t, "")
	d.exec(t, must(t, d.env(), "grants", "--writer", writer, "--relay", relay, "--monitor", monitor))
	as := func(role string) []string {
		return []string{"POSTRIDER_DATABASE=" + testenv.As(t, d.url, role), "POSTRIDER_BROKER=stdout:", "POSTRIDER_ADMIN__LISTEN=off"}
	}
	id := strings.TrimSpace(must(t, as(writer), "write", "--topic", "t", "--payload", "x"))
	if r := program(t, as(writer), "why", id); r.code != exitFailed {
		t.Errorf("a writer reads the outbox:\n%s", r.shown())
	}
	contains(t, must(t, as(monitor), "status"), "pending 1")
	contains(t, must(t, as(relay), "status"), "pending 1")
	contains(t, must(t, as(relay), "why", id), "pending")
	contains(t, must(t, as(relay), "relay", "--once"), id)
	if r := program(t, as(relay), "migrate", "down"); r.code != exitFailed {
		t.Errorf("a relay drops tables:\n%s", r.shown())
	}
}
