package outbox

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	n := Names{Schema: "My Tenant", Prefix: `Out"box`}
	for in, want := range map[string]string{
		"SELECT FROM {{outbox}}":  `SELECT FROM "My Tenant"."Out""box"`,
		"{{delivered_3}}{{dead}}": `"My Tenant"."Out""box_delivered_3""My Tenant"."Out""box_dead"`,
		"{{name:outbox_hot}}":     `"Out""box_hot"`,
		"{{schema}}.{{inbox}}":    `"My Tenant"."My Tenant"."inbox"`,
		"{{doorbell}} {{x}":       "{{doorbell}} {{x}",
		"{{":                      "{{",
		"{{name:doorbell}}":       "{{name:doorbell}}",
	} {
		if got := n.Expand(Postgres, in); got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
	if got := (Names{}).Expand(SQLite, "{{outbox}}"); got != `"main"."outbox"` {
		t.Errorf("got %s", got)
	}
	if got := (Names{Prefix: "shop"}).Expand(Postgres, "{{outbox}} {{dead}}"); got != `"public"."shop" "public"."shop_dead"` {
		t.Errorf("got %s", got)
	}
	if got := (Names{Table: "events"}).Expand(Postgres, "{{outbox}} {{dead}}"); got != `"public"."events" "public"."outbox_dead"` {
		t.Errorf("got %s", got)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("out", "INSERT INTO {{outbox}} {{name:outbox_hot}} {{x")
	f.Add(`a"b{{dead}}`, "{{{{outbox}}}}")
	f.Fuzz(func(t *testing.T, prefix, sql string) {
		n := Names{Prefix: prefix}
		got := n.Expand(Postgres, sql)
		if !strings.Contains(sql, "{{") && got != sql {
			t.Fatalf("%q became %q", sql, got)
		}
		if prefix == "" || strings.ContainsAny(sql, "{}") {
			return
		}
		// Names are never expanded again, whatever they contain.
		want := `"public".` + quote(prefix+"_dead") + sql
		if got := n.Expand(Postgres, "{{dead}}"+sql); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestNames_Validate(t *testing.T) {
	for _, n := range []Names{
		{},
		{Schema: "My Tenant"},
		{Prefix: `Out"box`},
		{Table: "été"},
		{Schema: strings.Repeat("s", 63), Prefix: strings.Repeat("p", 63-longestTail()), Inbox: "x.y", Table: "a'b$1"},
	} {
		if err := n.Validate(Postgres); err != nil {
			t.Errorf("%+v: %v", n, err)
		}
	}
	for _, c := range []struct {
		n     Names
		field string
	}{
		{Names{Schema: strings.Repeat("s", 64)}, "Schema"},
		{Names{Prefix: strings.Repeat("p", 64-longestTail())}, "Prefix"},
		{Names{Table: "a\x00b"}, "Table"},
		{Names{Table: "a\nb"}, "Table"},
		{Names{Inbox: "a;b"}, "Inbox"},
		{Names{Prefix: "a--b"}, "Prefix"},
		{Names{Prefix: "a$postrider$"}, "Prefix"},
		{Names{Prefix: "${a}"}, "Prefix"},
		{Names{Prefix: "{{dead}}"}, "Prefix"},
		{Names{Schema: "\xff"}, "Schema"},
		{Names{Table: "outbox_dead"}, "Table"},
		{Names{Inbox: "outbox"}, "Inbox"},
		{Names{Inbox: "outbox_lane"}, "Inbox"},
	} {
		var bad *NameError
		if err := c.n.Validate(Postgres); !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%+v: got %v, want a *NameError of %s", c.n, err, c.field)
		}
	}
}

// The list that decides how long a prefix may be is the one of the files.
func TestNameTails_AreThoseOfTheMigrations(t *testing.T) {
	token := regexp.MustCompile(`\{\{(?:name:)?([a-z0-9_]+)\}\}`)
	used := map[string]bool{}
	err := fs.WalkDir(files, "migrations", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, p)
		for _, m := range token.FindAllStringSubmatch(string(text), -1) {
			bare := Names{Table: "T", Prefix: "P", Inbox: "I"}.bare(m[1])
			if tail, ok := strings.CutPrefix(bare, "P_"); ok {
				used[tail] = true
			} else if bare == "" && m[1] != "doorbell" && m[1] != "schema" {
				t.Errorf("%s: unknown name %s", p, m[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for tail := range used {
		if !slices.Contains(nameTails, tail) {
			t.Errorf("%s is missing in nameTails", tail)
		}
	}
	for _, tail := range nameTails {
		if !used[tail] {
			t.Errorf("%s is in nameTails and in no migration", tail)
		}
	}
}
