package postgres

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func TestNew_ReportsEveryBadField(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Retention: 5, History: "some", Doorbell: "maybe", MaxConns: -1, DeadRetention: -1})
	if !relay.IsMisconfigured(err) {
		t.Fatalf("error %v", err)
	}
	for _, field := range []string{"url", "retention", "history", "doorbell", "max_conns", "dead_retention"} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s is not named in %v", field, err)
		}
	}
}

func TestOpen_SaysWhatKeepsItFromServing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, sql, problem, hint string
		final                    bool
	}{
		{"no table", `DROP TABLE {{outbox}} CASCADE`, "not found", "migrate up", true},
		{"half the tables", `DROP TABLE {{lane}}`, "not found beside", "migrate up", true},
		{"a foreign table", `ALTER TABLE {{outbox}} DROP COLUMN generation`, "not an outbox of postrider", "adopt", true},
		{"no right to delete", `REVOKE DELETE ON {{outbox}} FROM /relay/`, "lacks DELETE", "grants", true},
		{"no right on lanes", `REVOKE ALL ON {{lane}} FROM /relay/`, "lacks SELECT", "grants", true},
		{"no right on the schema", `REVOKE ALL ON SCHEMA {{schema}} FROM /relay/`, "lacks USAGE", "grants", true},
		{"no schema", `DROP SCHEMA {{schema}} CASCADE`, "schema", "migrate up", true},
		{"row-level security", `ALTER TABLE {{outbox}} ENABLE ROW LEVEL SECURITY`, "row-level security", "BYPASSRLS", true},
		{"newer tables", `UPDATE {{version}} SET version = 99`, "version 99", "newer release", true},
		{"read-only", `ALTER ROLE /relay/ SET default_transaction_read_only = on`, "read-only", "primary", false},
		{"no login", `ALTER ROLE /relay/ NOLOGIN`, "", "", false},
		{"another password", `ALTER ROLE /relay/ PASSWORD 'other'`, "", "password", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, option{})
			s.pg.Exec(t, s.admin, strings.ReplaceAll(s.names.Expand(outbox.Postgres, c.sql), "/relay/", identifier(s.relayRole)))
			store := s.store(t)
			for range 2 { // again after an error
				_, err := store.Open(t.Context())
				if err == nil || relay.IsMisconfigured(err) != c.final {
					t.Fatalf("final %v, want %v: %v", relay.IsMisconfigured(err), c.final, err)
				}
				if !strings.Contains(err.Error(), c.problem) || !strings.Contains(relay.HintOf(err), c.hint) {
					t.Errorf("error %q, hint %q", err, relay.HintOf(err))
				}
				if strings.Contains(err.Error(), testenv.Password) || strings.Contains(err.Error(), "other") {
					t.Errorf("a password in %q", err)
				}
			}
		})
	}
}

func TestOpen_UnreachableIsToBeTriedAgain(t *testing.T) {
	t.Parallel()
	for _, u := range []string{
		"postgres://u:s3cret@127.0.0.1:1/db?connect_timeout=1",
		"postgres://u:s3cret@nowhere.invalid/db?connect_timeout=1",
		"host=127.0.0.1 port=1 user=u password=s3cret dbname=db",
	} {
		store, err := New(Config{URL: u})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if _, err := store.Open(t.Context()); err == nil || relay.IsMisconfigured(err) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

func FuzzNew_NeverPrintsAPassword(f *testing.F) {
	for _, u := range []string{
		"postgres://u:%s@h:port/db", "postgres://u:%s@h/db?sslmode=x", "host=h password=%s port=x", "postgres://u:%s@[::1/db", "%s", "pass word=%s",
		"postgres://u@h/db?password=%s&port=x", "postgres://u:%s@h/db?target_session_attrs=x",
	} {
		f.Add(u)
	}
	f.Fuzz(func(t *testing.T, u string) {
		const secret = "s3cr3tS3cr3t"
		if _, err := New(Config{URL: strings.ReplaceAll(u, "%s", secret)}); err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("a password in %q", err)
		}
	})
}

func TestOpen_Finds(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	s.Exec(t, `ALTER TABLE {{outbox}} ALTER COLUMN id SET CACHE 20`)
	server, err := s.store(t).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, f := range server.Findings {
		found = found || strings.Contains(f.Problem, "CACHE 20")
	}
	if !found || !strings.HasPrefix(server.Describe, "PostgreSQL ") || server.Schema != outbox.SchemaVersion {
		t.Errorf("%+v", server)
	}
}

func TestOpen_S41_AStandbyIsNotServed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, databaseOption{pg: testenv.StartPostgres(t, testenv.PGConfig{})})
	s := newSetup(t, option{in: d})
	first, err := s.store(t).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	standby := d.pg.Standby(t)
	u, err := url.Parse(s.relay)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = standby.Addr()
	store := s.store(t, func(c *Config) { c.URL = u.String() })
	eventually(t, "the standby has the tables and is refused", func() bool {
		_, err := store.Open(t.Context())
		if err == nil || relay.IsMisconfigured(err) {
			t.Fatalf("open of a standby: %v", err)
		}
		return errors.Is(err, errNotPrimary)
	})
	standby.Promote(t)
	eventually(t, "it opens after promotion, as another server", func() bool {
		server, err := store.Open(t.Context())
		if err != nil {
			return false
		}
		if server.Identity == first.Identity {
			t.Fatalf("identity %q before and after the promotion", server.Identity)
		}
		f, err := store.Fetch(t.Context(), relay.FetchQuery{Rows: 1})
		if err != nil || f.Server != server.Identity {
			t.Errorf("fetch of %q: %v", f.Server, err)
		}
		return true
	})
}

func TestGrants_AreEnoughAndNoMore(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	s.pg.Exec(t, s.writer, s.names.Expand(outbox.Postgres, `INSERT INTO {{outbox}} (topic, payload) VALUES ('t', 'x');
		SELECT {{write}}('t', 'k', NULL, '{"a":1}'::jsonb)`))
	monitor := testenv.As(t, s.admin, s.monitorRole)
	if got := s.pg.Query(t, monitor, s.names.Expand(outbox.Postgres, `SELECT pending_events FROM {{health}}`)); len(got) != 1 || got[0] != "2" {
		t.Errorf("health %v", got)
	}
	for _, refused := range []string{`SELECT * FROM {{outbox}}`, `DELETE FROM {{outbox}}`, `SELECT setval('{{bell}}', 1)`, `SELECT * FROM {{dead}}`} {
		rows := s.Count(t, `SELECT count(*) FROM {{outbox}}`)
		for _, u := range []string{s.writer, monitor} {
			if err := run(t, u, s.names.Expand(outbox.Postgres, refused)); sqlState(err) != stateForbidden {
				t.Errorf("%s: %v", refused, err)
			}
		}
		if s.Count(t, `SELECT count(*) FROM {{outbox}}`) != rows {
			t.Fatal("rows are gone")
		}
	}
}
