// Package inspect answers an operator's questions about an outbox from its
// tables alone: which relays there are, where an event is, and why it has not
// left. It works while no relay runs, and only reads.
//
// It takes a *sql.DB and imports no driver. What only a running relay knows
// (whether a destination is down) it does not guess.
package inspect

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider/outbox"
)

// Outbox is one outbox to look at. Safe for concurrent use.
type Outbox struct {
	DB      *sql.DB
	Dialect outbox.Dialect
	Names   outbox.Names
}

// SQLite keeps times as milliseconds since 1970, PostgreSQL as timestamptz.
// Every time leaves a query as seconds from the database's now, so that no clock
// and no time zone but the database's is used.
const sqliteNow = "(julianday('now') - 2440587.5) * 86400000"

// sql fills in names, and what the dialects spell differently:
//
//	{{until:x}}   seconds from now until x
//	{{id:x}}      an event id as text
//	{{uuid:x}}    a text as an event id
func (o Outbox) sql(text string) string {
	text = replace(text, "until", func(x string) string {
		if o.Dialect == outbox.SQLite {
			return "((" + x + " - " + sqliteNow + ") / 1000.0)"
		}
		return "extract(epoch FROM " + x + " - clock_timestamp())::float8"
	})
	text = replace(text, "uuid", func(x string) string {
		if o.Dialect == outbox.SQLite {
			return x
		}
		return x + "::uuid"
	})
	text = replace(text, "id", func(x string) string {
		if o.Dialect == outbox.SQLite {
			return x
		}
		return x + "::text"
	})
	text = o.Names.Expand(o.Dialect, text)
	if o.Dialect == outbox.SQLite {
		text = strings.ReplaceAll(text, "$", "?")
	}
	return text
}

// replace applies f to what stands in each {{token:…}}.
func replace(text, token string, f func(string) string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "{{"+token+":")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		inside, rest, _ := strings.Cut(after, "}}")
		b.WriteString(f(inside))
		text = rest
	}
}

// seconds is a length of time as queries return it.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// each runs a query and calls scan for each row.
func (o Outbox) each(ctx context.Context, what, query string, args []any, scan func(*sql.Rows) error) error {
	rows, err := o.DB.QueryContext(ctx, o.sql(query), args...)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer rows.Close() //nolint:errcheck // Err says what went wrong
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
