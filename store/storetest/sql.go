package storetest

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// SQL works on the tables of an outbox with plain SQL, as an application and an
// operator do. DB may have other rights than the store.
type SQL struct {
	DB      *sql.DB
	Dialect outbox.Dialect
	Names   outbox.Names
}

// Exec runs one statement, with the names of the tables in double braces.
func (s SQL) Exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := s.DB.ExecContext(t.Context(), s.Names.Expand(s.Dialect, query), args...); err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
}

// Count runs a query that returns a number.
func (s SQL) Count(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := s.DB.QueryRowContext(t.Context(), s.Names.Expand(s.Dialect, query), args...).Scan(&n); err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
	return n
}

// Begin is a Harness's Begin.
func (s SQL) Begin(t testing.TB) Tx {
	t.Helper()
	tx, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // an error after Commit is no error
	return &sqlTx{s, tx}
}

// Pause is a Harness's Pause.
func (s SQL) Pause(t testing.TB, c relay.Control) {
	t.Helper()
	s.Exec(t, `INSERT INTO {{control}} (kind, name, by, reason) VALUES ($1, $2, $3, $4)`, c.Kind, c.Name, c.By, c.Reason)
}

type sqlTx struct {
	SQL
	tx *sql.Tx
}

func (x *sqlTx) Commit(t testing.TB) {
	t.Helper()
	if err := x.tx.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func (x *sqlTx) Rollback(t testing.TB) {
	t.Helper()
	if err := x.tx.Rollback(); err != nil {
		t.Fatalf("rollback: %v", err)
	}
}

func (x *sqlTx) Insert(t testing.TB, rows ...relay.Row) []relay.Row {
	t.Helper()
	query := x.Names.Expand(x.Dialect, `INSERT INTO {{outbox}}
		(event_id, topic, key, type, schema_version, subject_version, payload, content_type, headers, available_at)
		VALUES (`+x.cast("$1", "uuid")+`, $2, $3, $4, $5, $6, $7, $8, `+x.cast("$9", "jsonb")+`, $10) RETURNING id`)
	out := make([]relay.Row, len(rows))
	for i, r := range rows {
		if r.EventID == (outbox.ID{}) {
			r.EventID = outbox.NewID()
		}
		if r.ContentType == "" {
			r.ContentType = "application/json"
		}
		var headers any
		if r.Headers != nil {
			text, err := json.Marshal(r.Headers)
			if err != nil {
				t.Fatal(err)
			}
			headers = string(text)
		}
		var id int64
		err := x.tx.QueryRowContext(t.Context(), query, r.EventID.String(), r.Topic, r.Key.Key, null(r.Type), null(r.SchemaVersion),
			null(r.SubjectVersion), r.Payload, r.ContentType, headers, x.time(r.Available)).Scan(&id)
		if err != nil {
			t.Fatalf("insert: %v", err)
		}
		r.ID = relay.IntID(id)
		out[i] = r
	}
	return out
}

func (s SQL) cast(param, typ string) string {
	if s.Dialect == outbox.SQLite {
		return param
	}
	return param + "::" + typ
}

func (s SQL) time(at time.Time) any {
	switch {
	case at.IsZero():
		return nil
	case s.Dialect == outbox.SQLite:
		return at.UnixMilli()
	}
	return at
}

func null[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// Look is a Harness's Look.
func (s SQL) Look(t testing.TB) (out Tables) {
	t.Helper()
	s.rows(t, "{{outbox}}", "coalesce(held, ''), ''", func(r relay.Row, a, _ string, retry time.Time) {
		out.Pending = append(out.Pending, Record{r, relay.Held(a), retry})
	})
	s.rows(t, "{{delivered}}", "'', ''", func(r relay.Row, _, _ string, _ time.Time) {
		out.Delivered = append(out.Delivered, r)
	})
	s.rows(t, "{{dead}}", "cause_class, cause", func(r relay.Row, a, b string, _ time.Time) {
		out.Dead = append(out.Dead, Dead{r, a, b})
	})
	return out
}

func (s SQL) rows(t testing.TB, table, more string, add func(r relay.Row, a, b string, retry time.Time)) {
	t.Helper()
	event, headers, retry := "event_id", "headers", "CAST(retry_at AS text)"
	if s.Dialect == outbox.Postgres {
		event, headers, retry = "event_id::text", "headers::text", "(extract(epoch FROM retry_at) * 1000)::bigint::text"
	}
	query := s.Names.Expand(s.Dialect, `SELECT id, `+event+`, generation, topic, key, coalesce(type, ''), payload, `+headers+`,
		attempts, coalesce(last_error, ''), `+retry+`, `+more+` FROM `+table+` ORDER BY id`)
	rows, err := s.DB.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
	defer func() { _ = rows.Close() }() // rows.Err says what went wrong
	for rows.Next() {
		var r relay.Row
		var id int64
		var eventID, a, b string
		var head, retryAt sql.NullString
		if err := rows.Scan(&id, &eventID, &r.Generation, &r.Topic, &r.Key.Key, &r.Type, &r.Payload, &head,
			&r.Attempts, &r.LastError, &retryAt, &a, &b); err != nil {
			t.Fatalf("%.200s: %v", query, err)
		}
		r.ID = relay.IntID(id)
		raw, err := hex.DecodeString(strings.ReplaceAll(eventID, "-", ""))
		if err != nil || len(raw) != 16 {
			t.Fatalf("event id %q of table %s: no uuid", eventID, table)
		}
		copy(r.EventID[:], raw)
		if head.Valid {
			if err := json.Unmarshal([]byte(head.String), &r.Headers); err != nil {
				t.Fatalf("headers of table %s: %v", table, err)
			}
		}
		add(r, a, b, milli(retryAt))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%.200s: %v", query, err)
	}
}

func milli(s sql.NullString) time.Time {
	var ms int64
	if !s.Valid || json.Unmarshal([]byte(s.String), &ms) != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
