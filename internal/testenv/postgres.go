//go:build unix

package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Password is the password of every role that this package makes.
const Password = "postrider-test"

// PG is a running PostgreSQL server. Its methods may be called from several
// goroutines, those that stop and start it from one at a time.
type PG struct {
	// Version is the major version.
	Version int

	admin url.URL // superuser's URL of database postgres
	proc  *process
	bin   string
	tb    testing.TB // nil for the shared server

	syncReplica bool
}

// Postgres returns the server that all tests of this test binary share,
// version [DefaultPostgres], or the one that POSTRIDER_TEST_POSTGRES names. It
// runs without fsync. Take a database from it and leave everything else alone.
func Postgres(t testing.TB) *PG {
	t.Helper()
	pg, err := sharedPostgres()
	if err != nil {
		t.Fatalf("shared PostgreSQL: %v", err)
	}
	if pg == nil {
		missingPostgres(t, DefaultPostgres)
	}
	return pg
}

func missingPostgres(t testing.TB, version int) {
	t.Helper()
	missing(t, fmt.Sprintf("PostgreSQL %d", version), fmt.Sprintf(
		`run "make deps", or install the package postgresql-%d, or set POSTRIDER_TEST_POSTGRES to a superuser's URL`, version))
}

// sharedPostgres returns nil, nil where no server is installed.
//
//nolint:gochecknoglobals // one per test binary
var sharedPostgres = sync.OnceValues(func() (*PG, error) {
	if given := os.Getenv("POSTRIDER_TEST_POSTGRES"); given != "" {
		return givenPostgres(given)
	}
	if _, err := findPostgres(DefaultPostgres); err != nil {
		return nil, nil //nolint:nilerr,nilnil // absent is not an error here
	}
	pg, err := newPostgres(DefaultPostgres, map[string]string{"fsync": "off", "max_connections": "300"})
	if err != nil {
		return nil, err
	}
	return pg, pg.start()
})

func givenPostgres(given string) (*PG, error) {
	u, err := url.Parse(given)
	if err != nil {
		return nil, fmt.Errorf("POSTRIDER_TEST_POSTGRES: %w", err)
	}
	pg := &PG{admin: *u}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	conn, err := pgx.Connect(ctx, given)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // read only
	var number string
	if err := conn.QueryRow(ctx, `SHOW server_version_num`).Scan(&number); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(number)
	pg.Version = n / 10000
	return pg, err
}

// Addr is the server's host:port.
func (p *PG) Addr() string { return p.admin.Host }

// Port is the server's port.
func (p *PG) Port() int {
	_, port, _ := net.SplitHostPort(p.admin.Host)
	n, _ := strconv.Atoi(port)
	return n
}

// Admin is the superuser's URL of database postgres.
func (p *PG) Admin() string { return p.admin.String() }

// URL is the URL of database db for user, with [Password]; an empty user means
// the superuser.
func (p *PG) URL(user, db string) string {
	u := p.admin
	u.Path = "/" + db
	if user != "" {
		u.User = url.UserPassword(user, Password)
	}
	return u.String()
}

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
