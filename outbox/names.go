package outbox

import "strings"

// Names are the names of Postrider's tables in one database. The zero value
// means the defaults.
type Names struct {
	// Schema holds all tables. Default "public" in PostgreSQL and "main" in
	// SQLite.
	Schema string
	// Table is the outbox. Default Prefix.
	Table string
	// Prefix begins the name of every other table: <prefix>_delivered,
	// <prefix>_dead and so on. Default "outbox".
	Prefix string
	// Inbox is the table of applied event ids. Default "inbox".
	Inbox string
}

// WithDefaults fills the empty fields with the dialect's defaults.
func (n Names) WithDefaults(d Dialect) Names {
	if n.Schema == "" {
		n.Schema = "public"
		if d == SQLite {
			n.Schema = "main"
		}
	}
	if n.Prefix == "" {
		n.Prefix = "outbox"
	}
	if n.Table == "" {
		n.Table = n.Prefix
	}
	if n.Inbox == "" {
		n.Inbox = "inbox"
	}
	return n
}

// Expand replaces the names in double braces of a statement or a migration:
// {{outbox}}, {{delivered}}, {{dead}}, {{relay}}, {{lane}}, {{control}},
// {{version}}, {{health}}, {{write}}, {{bell}}, {{ring}} and {{inbox}} become quoted,
// schema-qualified names; {{outbox_x}} and {{delivered_0}} to {{delivered_7}}
// likewise; with "name:" before them they are quoted but not qualified, and
// {{schema}} is the quoted schema.
//
// Every statement of Postrider is qualified, so it works with an empty
// search_path and several outboxes share one database.
func (n Names) Expand(d Dialect, sql string) string {
	n = n.WithDefaults(d)
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(sql, "{{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		token, after, closed := strings.Cut(rest, "}}")
		if !closed {
			b.WriteString("{{")
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(n.token(token))
		sql = after
	}
}

func (n Names) token(token string) string {
	if token == "schema" {
		return quote(n.Schema)
	}
	bare, unqualified := strings.CutPrefix(token, "name:")
	name := n.bare(bare)
	if name == "" {
		return "{{" + token + "}}" // not ours: migrations have options of their own
	}
	if unqualified {
		return quote(name)
	}
	return quote(n.Schema) + "." + quote(name)
}

func (n Names) bare(token string) string {
	switch token {
	case "outbox":
		return n.Table
	case "inbox":
		return n.Inbox
	case "delivered", "dead", "relay", "lane", "control", "version", "health", "write", "bell", "ring":
		return n.Prefix + "_" + token
	}
	if suffix, ok := strings.CutPrefix(token, "delivered_"); ok {
		return n.Prefix + "_delivered_" + suffix
	}
	if suffix, ok := strings.CutPrefix(token, "outbox_"); ok {
		return n.Prefix + "_" + suffix
	}
	return ""
}

// quote makes a name an identifier of PostgreSQL and SQLite alike.
func quote(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
