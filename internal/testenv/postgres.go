//go:build unix

package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Password is the password of every role that this package makes.
const Password = "postrider-test"

// PG is a running PostgreSQL server. Its methods may be called from several
// goroutines, those that stop and start it from one at a time.
type PG struct {
	// Version is the major version.
	Version int

	server
	admin url.URL // superuser's URL of database postgres
	bin   string

	syncReplica bool
}

// Postgres returns the server that all tests of this test binary share,
// version [DefaultPostgres], or the one that POSTRIDER_TEST_POSTGRES names. It
// runs without fsync. Take a database from it and leave everything else alone.
func Postgres(t testing.TB) *PG {
	t.Helper()
	return PostgresVersion(t, DefaultPostgres)
}

// PostgresVersion is [Postgres] for another major version. The environment's
// server stands only for [DefaultPostgres].
func PostgresVersion(t testing.TB, version int) *PG {
	t.Helper()
	pg, err := sharedPostgres.get(version)
	if err != nil {
		t.Fatalf("shared PostgreSQL: %v", err)
	}
	if pg == nil {
		missingPostgres(t, version)
	}
	return pg
}

// PGVersions are the major versions that this run should test: those of
// POSTRIDER_TEST_PG_VERSIONS ("15 17 18"), else [DefaultPostgres] alone.
func PGVersions() []int {
	var versions []int
	for field := range strings.FieldsSeq(os.Getenv("POSTRIDER_TEST_PG_VERSIONS")) {
		v, err := strconv.Atoi(field)
		if err != nil {
			panic("POSTRIDER_TEST_PG_VERSIONS: " + err.Error())
		}
		versions = append(versions, v)
	}
	if versions == nil {
		versions = []int{DefaultPostgres}
	}
	return versions
}

func missingPostgres(t testing.TB, version int) {
	t.Helper()
	install := fmt.Sprintf(`run "make deps", or install the package postgresql-%d`, version)
	if version == DefaultPostgres {
		install += ", or set POSTRIDER_TEST_POSTGRES to a superuser's URL (a test that stops its server needs a private one all the same)"
	}
	missing(t, fmt.Sprintf("PostgreSQL %d", version), install)
}

// sharedPostgres are the shared servers of this test binary, by version.
var sharedPostgres sharedServers

type sharedServers struct {
	mu sync.Mutex
	by map[int]func() (*PG, error)
}

// get returns nil, nil where no server of this version is installed. Only the
// first caller of a version starts it; callers of others do not wait for that.
func (s *sharedServers) get(version int) (*PG, error) {
	s.mu.Lock()
	start, ok := s.by[version]
	if !ok {
		start = sync.OnceValues(func() (*PG, error) { return startShared(version) })
		if s.by == nil {
			s.by = map[int]func() (*PG, error){}
		}
		s.by[version] = start
	}
	s.mu.Unlock()
	return start()
}

func startShared(version int) (*PG, error) {
	if given := os.Getenv("POSTRIDER_TEST_POSTGRES"); given != "" && version == DefaultPostgres {
		return givenPostgres(given)
	}
	if _, err := findPostgres(version); err != nil {
		return nil, nil //nolint:nilerr,nilnil // absent is not an error here
	}
	pg, err := newPostgres(version, map[string]string{"max_connections": "300"})
	if err != nil {
		return nil, err
	}
	return pg, pg.start()
}

func givenPostgres(given string) (*PG, error) {
	u, err := url.Parse(given)
	if err != nil {
		return nil, fmt.Errorf("POSTRIDER_TEST_POSTGRES: %w", err)
	}
	pg := &PG{server: server{name: "PostgreSQL"}, admin: *u}
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
