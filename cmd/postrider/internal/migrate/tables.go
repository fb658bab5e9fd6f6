package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/postrider/postrider/outbox"
)

// ourTables are the names that migrations make, in the words of outbox.Names.
var ourTables = []string{"outbox", "delivered", "dead", "relay", "lane", "control", "version"}

// found says which of our names are taken in the database.
type found struct {
	tables []string // of ourTables, spelled as in the database
	record bool     // <prefix>_schema
	// version says that <prefix>_version is there: our tables, made by whatever
	// tool.
	version bool
	// inbox says that there is a table of the inbox's name; inboxOurs that it has
	// the inbox's columns.
	inbox, inboxOurs bool
}

// look finds which names are taken. It reads the catalogue only, so it needs no
// right on any table and waits for no lock.
func (m *Migrator) look(ctx context.Context) (found, error) {
	var f found
	columns := map[string]string{}
	query := `SELECT c.relname, coalesce((SELECT string_agg(a.attname, ',' ORDER BY a.attname) FROM pg_attribute a
	            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), '')
	          FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	          WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')`
	if m.dialect == outbox.SQLite {
		query = `SELECT m.name, coalesce((SELECT group_concat(name) FROM (SELECT p.name FROM pragma_table_info(m.name) p ORDER BY p.name)), '')
		         FROM main.sqlite_schema m WHERE m.type IN ('table', 'view') AND ?1 <> ''`
	}
	rows, err := m.db.QueryContext(ctx, query, m.names.Schema)
	if err != nil {
		return f, fmt.Errorf("list of tables: %w", err)
	}
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		var name, list string
		if err := rows.Scan(&name, &list); err != nil {
			return f, fmt.Errorf("list of tables: %w", err)
		}
		if m.dialect == outbox.SQLite { // its names are not case-sensitive
			name = strings.ToLower(name)
		}
		columns[name] = list
	}
	if err := rows.Err(); err != nil {
		return f, fmt.Errorf("list of tables: %w", err)
	}
	has := func(token string) bool { _, ok := columns[m.catalogName(token)]; return ok }
	for _, token := range ourTables {
		if has(token) {
			f.tables = append(f.tables, m.bare(token))
		}
	}
	f.record, f.version = has("outbox_schema"), has("version")
	f.inbox = has("inbox")
	f.inboxOurs = columns[m.catalogName("inbox")] == "applied_at,consumer,identity"
	return f, nil
}

// bare is a table's name without its schema and quotes.
func (m *Migrator) bare(token string) string {
	quoted := m.names.Expand(m.dialect, "{{name:"+token+"}}")
	return strings.ReplaceAll(strings.Trim(quoted, `"`), `""`, `"`)
}

func (m *Migrator) catalogName(token string) string {
	if m.dialect == outbox.SQLite {
		return strings.ToLower(m.bare(token))
	}
	return m.bare(token)
}

// sqliteParams spells $1 as SQLite has numbered parameters.
func sqliteParams(text string) string { return strings.ReplaceAll(text, "$", "?") }

// count counts the rows of a table up to a bound: the question is whether there
// are any, and how bad it is.
func (m *Migrator) count(ctx context.Context, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, token string,
) (n int64, err error) {
	query := m.names.Expand(m.dialect, "SELECT count(*) FROM (SELECT 1 FROM {{"+token+"}} LIMIT 1000000) found")
	if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
		return 0, fmt.Errorf("events in %s: %w", m.bare(token), err)
	}
	return n, nil
}
