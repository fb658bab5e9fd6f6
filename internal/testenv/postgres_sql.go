//go:build unix

package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Exec runs SQL, one or more statements without arguments, on a connection of
// its own.
func (p *PG) Exec(t testing.TB, url, sql string) {
	t.Helper()
	if err := execute(url, sql); err != nil {
		t.Fatalf("run %.80q: %v", sql, err)
	}
}

// Query runs a query on a connection of its own and returns its first column
// as text.
func (p *PG) Query(t testing.TB, url, sql string) []string {
	t.Helper()
	values, err := query(url, sql)
	if err != nil {
		t.Fatalf("query %.80q: %v", sql, err)
	}
	return values
}

func query(url, sql string) ([]string, error) {
	var values []string
	err := connected(url, func(ctx context.Context, conn *pgx.Conn) error {
		results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		for _, r := range results {
			for _, row := range r.Rows {
				values = append(values, string(row[0]))
			}
		}
		return err
	})
	return values, err
}

func execute(url, sql string) error {
	return connected(url, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
		return err
	})
}

func connected(url string, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	err = do(ctx, conn)
	closing, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = conn.Close(closing)
	return err
}

// TerminateBackends ends the sessions that filter, a condition on
// pg_stat_activity, selects, for example "application_name = 'postrider'"; an
// empty filter means all client sessions. It returns their number. It may be
// used on a shared server with a filter on the test's own database.
func (p *PG) TerminateBackends(t testing.TB, filter string) int {
	t.Helper()
	if filter == "" {
		filter = "true"
	}
	// MATERIALIZED: or the server may call pg_terminate_backend on rows that the
	// filter leaves out, its own session first.
	sql := `WITH victim AS MATERIALIZED (SELECT pid FROM pg_stat_activity
			WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND (` + filter + `))
		SELECT pid FROM victim WHERE pg_terminate_backend(pid, 5000)`
	pids, err := query(p.Admin(), sql)
	if err != nil {
		t.Fatalf("terminate backends: %v", err)
	}
	return len(pids)
}
