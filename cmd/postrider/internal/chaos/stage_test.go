//go:build linux

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/internal/testenv"
)

// plan says what a stage is made of.
type plan struct {
	// version is PostgreSQL's. Default testenv.DefaultPostgres.
	version int
	// relays is the number of relay processes. Default 4.
	relays int
	// lease and publish are their lease and publish_timeout. Default 2s and 1s.
	lease, publish time.Duration
	// drain is their drain_timeout. Default 5s.
	drain time.Duration
	// pooled lets every second relay reach the database through PgBouncer, with
	// a direct_url for LISTEN.
	pooled bool
	// standby adds an asynchronous standby.
	standby bool
	// retention is how long delivered events are kept. Default 24h.
	retention time.Duration
	// batch is the number of events of one fetch. Default: the product's.
	batch int
	// ownProxies puts a proxy of its own between each relay and the database.
	ownProxies bool
	// seed draws faults and transactions. Default: a random one.
	seed uint64
}

func (p plan) withDefaults() plan {
	p.version = or(p.version, testenv.DefaultPostgres)
	p.relays = or(p.relays, 4)
	p.lease = or(p.lease, 2*time.Second)
	p.publish = or(p.publish, time.Second)
	p.drain = or(p.drain, 5*time.Second)
	p.retention = or(p.retention, 24*time.Hour)
	p.seed = or(p.seed, seedFromEnvironment())
	return p
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// stage is a running installation.
type stage struct {
	*testing.T
	plan plan
	rng  *rand.Rand
	dir  string

	pg       *testenv.PG // the primary
	standby  *testenv.PG // nil once it was promoted
	old      *testenv.PG // the primary before the promotion
	link     *testenv.FaultProxy
	bouncer  *testenv.Bouncer
	died     int // how often the pooler died by itself
	nats     *testenv.NATSServer
	toNATS   *testenv.FaultProxy
	toPG     []*testenv.FaultProxy
	database string // its name
	writer   string // role that may insert events
	relayer  string // role of the relays
	primary  atomic.Pointer[testenv.PG]

	relays []*process
	taken  map[*process]bool // relays that a fault holds
	ledger ledger
	broken bool // something was broken: duplicates may be there

	began    time.Time
	mu       sync.Mutex
	schedule []string
}

const streamName = "EVENTS"

var topics = []string{"orders", "payments"}

// newStage starts servers, makes the tables with the program's own commands, and
// writes the relays' configurations. No relay runs yet.
func newStage(t *testing.T, p plan) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no chaos")
	}
	p = p.withDefaults()
	s := &stage{T: t, plan: p, rng: rand.New(rand.NewPCG(p.seed, 1)), dir: t.TempDir(), began: time.Now(), taken: map[*process]bool{}}
	t.Cleanup(s.report)
	s.pg = testenv.StartPostgres(t, testenv.PGConfig{Version: p.version})
	s.primary.Store(s.pg)
	s.nats = testenv.StartNATS(t, testenv.NATSConfig{})
	s.toNATS = testenv.Proxy(t, s.nats.Addr())
	s.makeStream()
	s.makeTables()
	if p.standby {
		s.makeStandby()
	}
	if p.pooled {
		s.bouncer = testenv.PgBouncer(t, s.pg, testenv.PgBouncerConfig{})
	}
	for i := range p.relays {
		s.addRelay(i)
	}
	return s
}

// makeStream makes a stream that forgets dedup ids at once: a duplicate must be
// seen here, and not be swallowed by the broker.
func (s *stage) makeStream() {
	s.Helper()
	s.withStream(func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: streamName, Subjects: topics, Duplicates: 100 * time.Millisecond})
		return err
	})
}

// withStream runs do with a connection past the proxy.
func (s *stage) withStream(do func(context.Context, jetstream.JetStream) error) {
	s.Helper()
	nc, err := nats.Connect(s.nats.URL(), nats.Timeout(10*time.Second))
	if err != nil {
		s.Fatalf("connect to the broker: %v", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	if err := do(ctx, js); err != nil {
		s.Fatalf("stream: %v", err)
	}
}

// makeTables makes the outbox and the application's tables, with roles that may
// do what the documentation says and no more.
func (s *stage) makeTables() {
	s.Helper()
	url := s.pg.Database(s.T)
	s.database = url[strings.LastIndexByte(url, '/')+1:]
	s.database, _, _ = strings.Cut(s.database, "?")
	s.writer, s.relayer = s.pg.Role(s.T, "LOGIN"), s.pg.Role(s.T, "LOGIN")
	postrider(s.T, "migrate", "up", "--database", url)
	s.pg.Exec(s.T, url, postrider(s.T, "grants", "--writer", s.writer, "--relay", s.relayer))
	s.pg.Exec(s.T, url, `CREATE TABLE account (name text PRIMARY KEY, version bigint NOT NULL);
		CREATE TABLE truth (event_id uuid PRIMARY KEY, topic text NOT NULL, key text NOT NULL, version bigint NOT NULL, due timestamptz);
		INSERT INTO account SELECT 'account-' || n, 0 FROM generate_series(1, `+fmt.Sprint(accounts)+`) n;
		GRANT SELECT, UPDATE ON account TO `+s.writer+`;
		GRANT INSERT ON truth TO `+s.writer)
}

// makeStandby starts a standby whose link to the primary can be cut, so that a
// promotion has something to lose.
func (s *stage) makeStandby() {
	s.Helper()
	s.link = testenv.Proxy(s.T, s.pg.Addr())
	s.standby = s.pg.Standby(s.T)
	host, port, _ := strings.Cut(s.link.Addr(), ":")
	admin := s.pg.URL("", "postgres")
	s.standby.Exec(s.T, s.standby.Admin(), fmt.Sprintf(`ALTER SYSTEM SET primary_conninfo = 'host=%s port=%s user=%s password=%s sslmode=disable application_name=linked'`,
		host, port, userOf(admin), testenv.Password))
	s.standby.Exec(s.T, s.standby.Admin(), `SELECT pg_reload_conf()`)
	s.until("the standby streams over the link", func() bool {
		return len(s.pg.Query(s.T, s.pg.Admin(), `SELECT 1 FROM pg_stat_replication WHERE application_name = 'linked' AND state = 'streaming'`)) == 1
	})
}

// addRelay writes the configuration of relay i.
func (s *stage) addRelay(i int) {
	s.Helper()
	name := fmt.Sprintf("relay-%d", i)
	direct := s.pg.URL(s.relayer, s.database)
	database := fmt.Sprintf("url: %q", direct)
	switch {
	case s.plan.ownProxies && i%2 == 0:
		proxy := testenv.Proxy(s.T, s.pg.Addr())
		s.toPG = append(s.toPG, proxy)
		database = fmt.Sprintf("url: %q", proxy.URL(s.T, direct))
	case s.plan.standby && i%2 == 0:
		database = fmt.Sprintf("url_file: %q", s.urlFile(s.pg))
	case s.plan.standby:
		u := strings.Replace(direct, s.pg.Addr(), s.pg.Addr()+","+s.standby.Addr(), 1)
		database = fmt.Sprintf("url: %q", u+"&target_session_attrs=read-write")
	case s.plan.pooled && i%2 == 1:
		database = fmt.Sprintf("url: %q, direct_url: %q", s.bouncer.URL(direct), direct)
	}
	if s.plan.batch > 0 {
		database += fmt.Sprintf(", batch: %d", s.plan.batch)
	}
	s.relays = append(s.relays, newProcess(s.T, s.dir, name, fmt.Sprintf(`
databases: [{name: app, %s, retention: %v, sweep_interval: 1s}]
brokers: [{name: default, url: %q, options: {name: %s, ping_interval: 1s}}]
routes: [{headers: {relay: %s}}]
relay: {lease: %v, publish_timeout: %v, drain_timeout: %v}
admin: {listen: "off"}
log: {level: debug, keys: plain}
`, database, s.plan.retention, s.toNATS.URL(s.T, s.nats.URL()), name, name, s.plan.lease, s.plan.publish, s.plan.drain)))
}

// urlFile writes the file that some relays read the database's address from.
func (s *stage) urlFile(pg *testenv.PG) string {
	s.Helper()
	file := filepath.Join(s.dir, "url")
	if err := os.WriteFile(file, []byte(pg.URL(s.relayer, s.database)), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// admin is the superuser's URL of the outbox's database.
func (s *stage) admin() string { return s.pg.URL("", s.database) }

// ask runs a query whose answer is one number, on a server that has to answer.
func (s *stage) ask(sql string) int {
	s.Helper()
	n := -1
	s.until("the database answers "+sql, func() bool {
		ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.admin())
		if err != nil {
			return false
		}
		defer conn.Close(ctx)
		return conn.QueryRow(ctx, sql).Scan(&n) == nil
	})
	return n
}

// until polls for what has to come.
func (s *stage) until(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("never: %s", what)
		}
		s.supervise()
	}
}

// supervise starts a pooler again that died by itself, as its supervisor would:
// PgBouncer 1.18 does so of a cancel request whose sender was killed ("bad client
// state").
func (s *stage) supervise() {
	if s.bouncer == nil {
		return
	}
	b, err := os.ReadFile(s.bouncer.LogFile())
	if err != nil {
		s.Fatal(err)
	}
	if died := strings.Count(string(b), "FATAL @src/"); died > s.died {
		s.died = died
		s.note("the pooler died by itself and is started again")
		s.bouncer.Restart()
	}
}

// note adds a line to the schedule that a failure prints.
func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.schedule = append(s.schedule, fmt.Sprintf("%8.3fs  ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

// report prints what is needed to understand a failure.
func (s *stage) report() {
	if !s.Failed() && !testing.Verbose() {
		return
	}
	s.mu.Lock()
	s.Logf("seed %d, PostgreSQL %d, began %s\n%s", s.plan.seed, s.plan.version, s.began.UTC().Format(time.RFC3339Nano), strings.Join(s.schedule, "\n"))
	s.mu.Unlock()
	for _, r := range s.relays {
		s.Log(r.tail(40))
	}
}
