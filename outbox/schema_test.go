package outbox

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestMigrations_AreAFileSystem(t *testing.T) {
	for _, d := range []Dialect{Postgres, SQLite} {
		dir, err := Migrations(d, Names{}, MigrationOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := fstest.TestFS(dir, "00001_outbox.sql", "00002_inbox.sql"); err != nil {
			t.Error(err)
		}
	}
}

func TestMigrations_AreExpandedAndBounded(t *testing.T) {
	for _, d := range []Dialect{Postgres, SQLite} {
		dir, err := Migrations(d, Names{Schema: "My Tenant", Prefix: `Out"box`}, MigrationOptions{Doorbell: DoorbellOff})
		if err != nil {
			t.Fatal(err)
		}
		names, _ := fs.Glob(dir, "*.sql")
		for _, name := range names {
			text, _ := fs.ReadFile(dir, name)
			sql := string(text)
			if strings.Contains(sql, "{{") {
				t.Errorf("%s of %s has a name in braces", name, d)
			}
			if strings.Count(sql, "-- +goose Up") != 1 || strings.Count(sql, "-- +goose Down") != 1 {
				t.Errorf("%s of %s: directions", name, d)
			}
			// S50: in both directions.
			if d == Postgres && strings.Count(sql, "SET LOCAL lock_timeout = '3s';") != 2 {
				t.Errorf("%s of %s waits for locks without an end", name, d)
			}
		}
	}
}

func TestMigrations_InboxOnly(t *testing.T) {
	dir, err := Migrations(Postgres, Names{}, MigrationOptions{InboxOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	names, _ := fs.Glob(dir, "*")
	if len(names) != 1 || names[0] != "00002_inbox.sql" {
		t.Fatalf("got %v", names)
	}
}

func TestMigrations_RefuseBadInput(t *testing.T) {
	if _, err := Migrations("oracle", Names{}, MigrationOptions{}); err == nil {
		t.Error("an unknown dialect")
	}
	if _, err := Migrations(Postgres, Names{Prefix: "a;"}, MigrationOptions{}); err == nil {
		t.Error("a bad name")
	}
	if _, err := Migrations(Postgres, Names{}, MigrationOptions{Doorbell: "loud"}); err == nil {
		t.Error("a bad doorbell")
	}
}

func TestPrint(t *testing.T) {
	for f, want := range map[Format][]string{
		FormatGoose:  {"-- file: 00001_outbox.sql\n", "-- file: 00002_inbox.sql\n", "-- +goose Up", "-- +goose Down", "-- +goose StatementBegin"},
		FormatFlyway: {"-- file: V1__outbox.sql\n", "-- file: V2__inbox.sql\n"},
		FormatAtlas:  {"-- file: 00001_outbox.sql\n", "-- file: 00002_inbox.sql\n"},
		FormatSQL:    {"-- file: 00001_outbox.sql\n", "BEGIN;\n", "COMMIT;\n"},
	} {
		for _, d := range []Dialect{Postgres, SQLite} {
			var b strings.Builder
			if err := Print(&b, f, d, Names{}, MigrationOptions{}); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			for _, w := range want {
				if f == FormatGoose && d == SQLite && w == "-- +goose StatementBegin" {
					continue
				}
				if !strings.Contains(text, w) {
					t.Errorf("%s of %s lacks %q", f, d, w)
				}
			}
			if f != FormatGoose && (strings.Contains(text, "+goose") || strings.Contains(text, "DROP ")) {
				t.Errorf("%s of %s has goose's parts", f, d)
			}
		}
	}
	if err := Print(&strings.Builder{}, "liquibase", Postgres, Names{}, MigrationOptions{}); err == nil {
		t.Error("an unknown format")
	}
}
