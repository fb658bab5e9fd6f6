//go:build unix

package testenv

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// PgBouncerConfig describes a pooler.
type PgBouncerConfig struct {
	// PoolMode is transaction, session or statement. Default transaction.
	PoolMode string
	// PoolSize is the number of server connections per user and database.
	// Default 5.
	PoolSize int
	// MaxPrepared is the number of prepared statements that the pooler follows
	// per connection. The test is skipped where PgBouncer is older than 1.21,
	// which follows none. Default 0.
	MaxPrepared int
	// Settings are added to the section pgbouncer of pgbouncer.ini.
	Settings map[string]string
}

// Bouncer is a running PgBouncer in front of a [PG].
type Bouncer struct {
	server
	pg   *PG
	addr string
}

// PgBouncer starts a pooler in front of pg for this test alone. Every role of
// pg can log in through it with its own password.
func PgBouncer(t testing.TB, pg *PG, cfg PgBouncerConfig) *Bouncer {
	t.Helper()
	bin, err := findBinary("pgbouncer")
	if err != nil {
		missing(t, "pgbouncer", `run "make deps", or install the package pgbouncer`)
	}
	if cfg.MaxPrepared > 0 && !followsPrepared(bin) {
		t.Skip("SKIPPED: this pgbouncer is older than 1.21 and does not follow prepared statements")
	}
	b, err := newBouncer(bin, pg, cfg)
	if err != nil {
		t.Fatalf("PgBouncer: %v", err)
	}
	b.adopt(t, nil)
	b.Start()
	return b
}

func followsPrepared(bin string) bool {
	out, err := exec.Command(bin, "--version").Output()
	var major, minor int
	if _, errScan := fmt.Sscanf(string(out), "PgBouncer %d.%d", &major, &minor); err != nil || errScan != nil {
		return false
	}
	return major > 1 || minor >= 21
}

func newBouncer(bin string, pg *PG, cfg PgBouncerConfig) (*Bouncer, error) {
	dir, err := newDir("pgbouncer")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	ini := filepath.Join(dir, "pgbouncer.ini")
	b := &Bouncer{pg: pg, addr: loopback(port)}
	b.server = server{
		name:  "PgBouncer",
		proc:  &process{dir: dir, args: []string{bin, ini}},
		ready: b.answers,
		quit:  syscall.SIGINT,
	}
	if cfg.PoolMode == "" {
		cfg.PoolMode = "transaction"
	}
	if cfg.PoolSize == 0 {
		cfg.PoolSize = 5
	}
	users := filepath.Join(dir, "users.txt")
	admin := pg.admin.User.Username()
	password, _ := pg.admin.User.Password()
	if err := writeFile(users, fmt.Sprintf("%q %q\n", admin, password), 0o600); err != nil {
		return nil, err
	}
	var s strings.Builder
	fmt.Fprintf(&s, "[databases]\n* = host=%s port=%d\n\n[pgbouncer]\n", pg.admin.Hostname(), pg.Port())
	fmt.Fprintf(&s, "listen_addr = 127.0.0.1\nlisten_port = %d\nunix_socket_dir =\n", port)
	// Roles come and go during tests: the pooler asks the server for each one's
	// secret, and logs in with what it learned from the client's own login.
	fmt.Fprintf(&s, "auth_type = scram-sha-256\nauth_file = %s\nauth_user = %s\nadmin_users = %s\n", users, admin, admin)
	fmt.Fprintf(&s, "pool_mode = %s\ndefault_pool_size = %d\nmax_client_conn = 500\n", cfg.PoolMode, cfg.PoolSize)
	// A server that is back must be found at once, not after 15 seconds.
	s.WriteString("server_login_retry = 0.2\n")
	if cfg.MaxPrepared > 0 {
		fmt.Fprintf(&s, "max_prepared_statements = %d\n", cfg.MaxPrepared)
	}
	for name, value := range cfg.Settings {
		fmt.Fprintf(&s, "%s = %s\n", name, value)
	}
	return b, writeFile(ini, s.String(), 0o600)
}

// URL turns a URL of the PostgreSQL server behind into one through the pooler:
// the same user, password, database and parameters.
func (b *Bouncer) URL(databaseURL string) string {
	u, err := url.Parse(databaseURL)
	if err != nil {
		panic(err) // it came from this package
	}
	u.Host = b.addr
	return u.String()
}

// Addr is the pooler's host:port.
func (b *Bouncer) Addr() string { return b.addr }

// answers asks the pooler's own console, so that it may start before, or
// without, the server behind it.
func (b *Bouncer) answers() error {
	cfg, err := pgx.ParseConfig(b.URL(b.pg.Admin()))
	if err != nil {
		return err
	}
	cfg.Database = "pgbouncer"
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}
