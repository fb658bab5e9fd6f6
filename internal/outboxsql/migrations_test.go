package outboxsql

import (
	"context"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
)

// half returns one direction of all migrations, in the order to run them.
func half(t *testing.T, db *database, o outbox.MigrationOptions, down bool) []string {
	t.Helper()
	dir, err := outbox.Migrations(db.dialect, db.names, o)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	var parts []string
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		up, back, _ := strings.Cut(string(text), "-- +goose Down")
		if down {
			parts = append([]string{back}, parts...)
		} else {
			parts = append(parts, up)
		}
	}
	return parts
}

// run executes each part in a transaction, as migration tools do.
func (db *database) run(t *testing.T, parts []string) error {
	t.Helper()
	for _, part := range parts {
		tx := db.begin(t)
		if err := tx.exec(part); err != nil {
			_ = tx.rollback()
			return err
		}
		if err := tx.commit(); err != nil {
			return err
		}
	}
	return nil
}

func (db *database) objects(t *testing.T) int64 {
	t.Helper()
	if db.dialect == outbox.SQLite {
		return db.count(t, `SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'`)
	}
	return db.count(t, `SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace)
		+ (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)`)
}

func TestMigrations_DownUndoesUp(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, outbox.Names) *database{"postgres": openStdlib, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, outbox.Names{})
			made := db.objects(t)
			if err := db.run(t, half(t, db, outbox.MigrationOptions{}, true)); err != nil {
				t.Fatal(err)
			}
			if n := db.objects(t); n != 0 {
				t.Fatalf("%d objects stay", n)
			}
			if err := db.run(t, half(t, db, outbox.MigrationOptions{}, false)); err != nil {
				t.Fatal(err)
			}
			if n := db.objects(t); n != made {
				t.Fatalf("%d objects, %d the first time", n, made)
			}
			if n := db.count(t, `SELECT max(version) FROM {{version}}`); n != outbox.SchemaVersion {
				t.Fatalf("version %d, want %d", n, outbox.SchemaVersion)
			}
		})
	}
}

// Several outboxes live in one schema, under names that need their quotes.
func TestMigrations_QuotedNamesWork(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, outbox.Names) *database{"postgres": openStdlib, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, outbox.Names{})
			for i, n := range []outbox.Names{
				{Schema: "My Tenant", Prefix: `Out"box`, Inbox: "In'box"},
				{Schema: "My Tenant", Prefix: "a$$b", Table: "Ereignisse äöü 🎉", Inbox: "%s"},
				{Schema: "My Tenant", Prefix: strings.Repeat("p", 48), Table: strings.Repeat("t", 63), Inbox: strings.Repeat("i", 63)},
				{Schema: "My Tenant", Prefix: `back\slash`, Inbox: "select"},
			} {
				if db.dialect == outbox.SQLite {
					n.Schema = ""
				} else if i == 0 {
					db.exec(t, `CREATE SCHEMA "My Tenant"`)
				}
				db.names = n
				db.migrate(t, n, outbox.MigrationOptions{Doorbell: outbox.DoorbellOn})
				if db.dialect == outbox.Postgres {
					armBell(t, db)
				}
				db.write(t, outbox.Config{}, outbox.Event{Topic: "t"})
				db.write(t, outbox.Config{}, awkward()...)
				if got := db.read(t); len(got) != 1+len(awkward()) {
					t.Errorf("%+v: %d rows", n, len(got))
				}
				if n := db.count(t, `SELECT count(*) FROM {{health}} WHERE topic = 't' AND pending_events = 1`); n != 1 {
					t.Errorf("%+v: not in the health view", db.names)
				}
				if err := db.run(t, half(t, db, outbox.MigrationOptions{}, true)); err != nil {
					t.Errorf("%+v: %v", n, err)
				}
			}
		})
	}
}

func TestMigrations_Doorbell(t *testing.T) {
	t.Parallel()
	for choice, want := range map[outbox.Doorbell]int64{outbox.DoorbellAuto: 1, outbox.DoorbellOn: 1, outbox.DoorbellOff: 0} {
		t.Run(string(choice), func(t *testing.T) {
			t.Parallel()
			db := openStdlib(t, outbox.Names{})
			db.names.Prefix = "other"
			db.names.Inbox = "other_in"
			db.migrate(t, db.names, outbox.MigrationOptions{Doorbell: choice})
			if n := db.count(t, `SELECT count(*) FROM pg_trigger WHERE tgrelid = '{{outbox}}'::regclass`); n != want {
				t.Errorf("%d triggers, want %d", n, want)
			}
		})
	}
}

func TestMigrations_InboxOnly(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, outbox.Names{})
	before := db.objects(t)
	db.names.Inbox = "applied"
	db.migrate(t, db.names, outbox.MigrationOptions{InboxOnly: true})
	if n := db.objects(t); n != before+1 {
		t.Fatalf("%d objects more, want 1", n-before)
	}
}

// S50: a migration gives up on a lock instead of queueing every writer behind
// it, and can be run again.
func TestS50_AMigrationDoesNotQueueWritersBehindALock(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	reader := beginPgx(t, connect(t, db.url, pgx.QueryExecModeExec))
	if err := reader.exec(`LOCK TABLE outbox IN ACCESS SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	down := half(t, db, outbox.MigrationOptions{}, true)
	failed := make(chan error, 1)
	go func() { failed <- db.run(t, down) }()
	waitForLock(t, db)
	writing, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a hang, not a speed
	defer cancel()
	tx := beginPgx(t, connect(t, db.url, pgx.QueryExecModeExec))
	if err := db.writer(t, outbox.Config{}).Write(writing, tx, outbox.Event{Topic: "t"}); err != nil {
		t.Fatal(err)
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; codeOf(err) != "55P03" {
		t.Fatalf("got %v, want lock_not_available", err)
	}
	if err := reader.rollback(); err != nil {
		t.Fatal(err)
	}
	// The inbox's migration was undone before; only the outbox's is run again.
	if err := db.run(t, down[1:]); err != nil {
		t.Fatal(err)
	}
}

func TestSQL_DefaultsAndChecks(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, outbox.Names) *database{"postgres": openStdlib, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, outbox.Names{})
			for range 50 {
				db.exec(t, `INSERT INTO outbox (topic, payload) VALUES ('t', '{}')`)
			}
			seen := map[outbox.ID]bool{}
			for _, e := range db.read(t) {
				seen[e.ID] = true
				requireEqual(t, e, outbox.Event{Topic: "t", Payload: []byte("{}")})
				if e.ID[6]>>4 != 4 || e.ID[8]>>6 != 0b10 {
					t.Errorf("%s is not a random uuid", e.ID)
				}
			}
			if len(seen) != 50 {
				t.Errorf("%d distinct ids of 50", len(seen))
			}
			for constraint, values := range map[string]string{
				"outbox_topic_length":   `(topic) VALUES ('')`,
				"outbox_key_length":     `(topic, key) VALUES ('t', '` + strings.Repeat("é", 513) + `')`,
				"outbox_headers_object": `(topic, headers) VALUES ('t', '[]')`,
				"outbox_held_state":     `(topic, held) VALUES ('t', 'elsewhere')`,
			} {
				_, err := db.sql.ExecContext(t.Context(), `INSERT INTO outbox `+values)
				if err == nil || !strings.Contains(err.Error(), constraint) {
					t.Errorf("%s: got %v", constraint, err)
				}
			}
		})
	}
}

func TestSQLite_EventIDsAreLowerCaseUUIDs(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, outbox.Names{})
	for _, id := range []string{"", "x", "01890A5D-AC96-774B-BCCE-B302099A8057", "01890a5dac96774bbcceb302099a8057", "01890a5d-ac96-774b-bcce-b302099a805g"} {
		_, err := db.sql.ExecContext(t.Context(), `INSERT INTO outbox (topic, event_id) VALUES ('t', ?)`, id)
		if err == nil || !strings.Contains(err.Error(), "outbox_event_id_uuid") {
			t.Errorf("%q: got %v", id, err)
		}
	}
}

// SQLite keeps a value of any type in a column of any type, and its JSON is a
// little larger with each release; every other language reads what is written.
func TestSQLite_TopicKeyAndHeadersAreWhatTheySeem(t *testing.T) {
	t.Parallel()
	db := openSQLite(t, outbox.Names{})
	for _, c := range []struct{ constraint, values string }{
		{"outbox_topic_text", `(topic) VALUES (CAST('t' AS BLOB))`},
		{"outbox_topic_text", `(topic) VALUES ('t' || char(0))`},
		{"outbox_topic_text", `(topic) VALUES (char(0))`},
		{"outbox_key_text", `(topic, key) VALUES ('t', x'6b')`},
		{"outbox_key_text", `(topic, key) VALUES ('t', x'')`},
		{"outbox_key_text", `(topic, key) VALUES ('t', 'a' || char(0) || 'b')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', 'nothing')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '{a: 1}')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '{"a": 1,}')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '{"a": 0x1F}')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '{"a": "b"} /* c */')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', 'null')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', '"a"')`},
		{"outbox_headers_object", `(topic, headers) VALUES ('t', CAST('{}' AS BLOB))`},
	} {
		_, err := db.sql.ExecContext(t.Context(), `INSERT INTO outbox `+c.values)
		if err == nil || !strings.Contains(err.Error(), c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", c.values, err, c.constraint)
		}
	}
	for _, values := range []string{
		`(topic, key) VALUES ('t', 17)`, // a number becomes its text
		`(topic, headers) VALUES ('t', ' { "a" : "\u00e9" } ')`,
		`(topic, headers) VALUES ('t', NULL)`,
	} {
		db.exec(t, `INSERT INTO outbox `+values)
	}
}

// PostgreSQL's text holds no NUL, so that a key means the same in every database.
func TestPostgres_TopicAndKeyHoldNoNUL(t *testing.T) {
	t.Parallel()
	db := openStdlib(t, outbox.Names{})
	for _, columns := range [][2]any{{"t\x00", ""}, {"t", "a\x00b"}} {
		if _, err := db.sql.ExecContext(t.Context(), `INSERT INTO outbox (topic, key) VALUES ($1, $2)`, columns[0], columns[1]); err == nil {
			t.Errorf("%q is accepted", columns)
		}
	}
}

func TestHealth_CountsPerTopic(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, outbox.Names) *database{"postgres": openStdlib, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, outbox.Names{})
			db.write(t, outbox.Config{},
				outbox.Event{Topic: "a"}, outbox.Event{Topic: "a"}, outbox.Event{Topic: "held"},
				outbox.Event{Topic: "a", AvailableAt: time.Now().Add(time.Hour)},
				outbox.Event{Topic: "a", AvailableAt: time.Now().Add(-time.Hour)})
			db.exec(t, `UPDATE outbox SET held = 'retry' WHERE topic = 'held'`)
			past, now := "clock_timestamp() - interval '100 s'", "clock_timestamp()"
			if db.dialect == outbox.SQLite {
				past, now = "(SELECT max(queued_at) FROM outbox) - 100000", "1"
			}
			db.exec(t, `UPDATE outbox SET queued_at = `+past+` WHERE id = 1`)
			db.exec(t, `INSERT INTO outbox_dead (id, event_id, generation, topic, key, content_type, created_at, queued_at, attempts, cause_class, cause)
				VALUES (1, '01890a5d-ac96-774b-bcce-b302099a8057', 0, 'gone', '', '', `+now+`, `+now+`, 1, 'permanent', 'x')`)
			rows, err := db.sql.QueryContext(t.Context(), `SELECT topic, pending_events, oldest_pending_seconds, held_events, scheduled_events, dead_events FROM outbox_health ORDER BY topic`)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = rows.Close() }()
			type line struct {
				topic                          string
				pending, held, scheduled, dead int
			}
			var got []line
			for rows.Next() {
				var l line
				var age float64
				if err := rows.Scan(&l.topic, &l.pending, &age, &l.held, &l.scheduled, &l.dead); err != nil {
					t.Fatal(err)
				}
				if l.topic == "a" && (age < 100 || age > 3_000) { // an hour ago is before it was queued
					t.Errorf("age %g", age)
				}
				got = append(got, l)
			}
			want := []line{{"a", 3, 0, 1, 0}, {"gone", 0, 0, 0, 1}, {"held", 1, 1, 0, 0}}
			if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// The printed formats differ in their frame only: each makes the same tables.
func TestPrint_EveryFormatMakesTheTables(t *testing.T) {
	t.Parallel()
	for _, format := range []outbox.Format{outbox.FormatFlyway, outbox.FormatAtlas, outbox.FormatSQL} {
		t.Run(string(format), func(t *testing.T) {
			t.Parallel()
			db := &database{dialect: outbox.Postgres, url: testenv.Postgres(t).Database(t)}
			var text strings.Builder
			if err := outbox.Print(&text, format, db.dialect, db.names, outbox.MigrationOptions{}); err != nil {
				t.Fatal(err)
			}
			conn := connect(t, db.url, pgx.QueryExecModeExec)
			if _, err := conn.Exec(t.Context(), text.String()); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `SELECT FROM outbox, outbox_health, inbox`); err != nil {
				t.Fatal(err)
			}
		})
	}
}
