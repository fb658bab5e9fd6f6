package outboxsql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
)

// database is one way to reach a fresh database with the tables in it.
type database struct {
	dialect outbox.Dialect
	names   outbox.Names
	url     string // PostgreSQL's
	sql     *sql.DB
	// begin starts a transaction as the driver under test does.
	begin func(t *testing.T) *transaction
}

// transaction is what a test does with one, whatever its driver.
type transaction struct {
	outbox.Tx
	commit, rollback func() error
	exec             func(query string) error
}

// drivers are all that can be tested here; lib/pq is in examples/orm.
var drivers = map[string]func(t *testing.T, n outbox.Names) *database{
	"pgx": func(t *testing.T, n outbox.Names) *database {
		return openPgx(t, n, pgx.QueryExecModeCacheStatement)
	},
	"pgx with the exec mode": func(t *testing.T, n outbox.Names) *database {
		return openPgx(t, n, pgx.QueryExecModeExec)
	},
	"pgx with the describe cache": func(t *testing.T, n outbox.Names) *database {
		return openPgx(t, n, pgx.QueryExecModeCacheDescribe)
	},
	"pgx with the simple protocol": func(t *testing.T, n outbox.Names) *database {
		return openPgx(t, n, pgx.QueryExecModeSimpleProtocol)
	},
	"pgx stdlib": openStdlib,
	"sqlite":     openSQLite,
}

// onEach runs a test with each driver and default names.
func onEach(t *testing.T, test func(t *testing.T, db *database)) {
	t.Helper()
	t.Parallel()
	for name, open := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, outbox.Names{}))
		})
	}
}

func openPgx(t *testing.T, n outbox.Names, mode pgx.QueryExecMode) *database {
	t.Helper()
	db := openStdlib(t, n)
	conn := connect(t, db.url, mode)
	db.begin = func(t *testing.T) *transaction { return beginPgx(t, conn) }
	return db
}

func openStdlib(t *testing.T, n outbox.Names) *database {
	t.Helper()
	db := &database{dialect: outbox.Postgres, names: n, url: testenv.Postgres(t).Database(t)}
	db.openSQL(t, "pgx", db.url)
	return db
}

func openSQLite(t *testing.T, n outbox.Names) *database {
	t.Helper()
	db := &database{dialect: outbox.SQLite, names: n}
	db.openSQL(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "app.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	return db
}

func (db *database) openSQL(t *testing.T, driver, url string) {
	t.Helper()
	pool, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	db.sql = pool
	db.begin = func(t *testing.T) *transaction {
		t.Helper()
		tx, err := pool.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return &transaction{tx, tx.Commit, tx.Rollback, func(query string) error {
			_, err := tx.ExecContext(t.Context(), query)
			return err
		}}
	}
	db.migrate(t, db.names, outbox.MigrationOptions{})
}

// migrate runs the plain SQL that "migrate print" gives.
func (db *database) migrate(t *testing.T, n outbox.Names, o outbox.MigrationOptions) {
	t.Helper()
	var text strings.Builder
	if err := outbox.Print(&text, outbox.FormatSQL, db.dialect, n, o); err != nil {
		t.Fatal(err)
	}
	db.exec(t, text.String())
}

func (db *database) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := db.sql.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%.80s: %v", query, err)
	}
}

// count returns a query's only number.
func (db *database) count(t *testing.T, query string) int64 {
	t.Helper()
	var n int64
	if err := db.sql.QueryRowContext(t.Context(), db.names.Expand(db.dialect, query)).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (db *database) writer(t *testing.T, c outbox.Config) *outbox.Writer {
	t.Helper()
	c.Names = db.names
	w, err := outbox.NewWriter(db.dialect, c)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// write writes events in a transaction of their own.
func (db *database) write(t *testing.T, c outbox.Config, events ...outbox.Event) {
	t.Helper()
	tx := db.begin(t)
	if err := db.writer(t, c).Write(t.Context(), tx, events...); err != nil {
		t.Fatal(err)
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
}

// read returns all rows in the order of their ids, as Events. NULL is told from
// empty for payloads only; the tests of defaults look at the columns.
func (db *database) read(t *testing.T) []outbox.Event {
	t.Helper()
	available := "extract(epoch FROM available_at) * 1000000"
	if db.dialect == outbox.SQLite {
		available = "available_at * 1000"
	}
	rows, err := db.sql.QueryContext(t.Context(), db.names.Expand(db.dialect, fmt.Sprintf(
		`SELECT CAST(event_id AS text), topic, key, coalesce(type, ''), coalesce(schema_version, 0), coalesce(subject_version, 0),
		        payload, payload IS NULL, content_type, CAST(headers AS text), CAST(%s AS bigint) FROM {{outbox}} ORDER BY id`, available)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var events []outbox.Event
	for rows.Next() {
		var e outbox.Event
		var id string
		var headers sql.NullString
		var micros sql.NullInt64
		var tombstone bool
		if err := rows.Scan(&id, &e.Topic, &e.Key, &e.Type, &e.SchemaVersion, &e.SubjectVersion,
			&e.Payload, &tombstone, &e.ContentType, &headers, &micros); err != nil {
			t.Fatal(err)
		}
		if !tombstone && e.Payload == nil {
			e.Payload = []byte{} // modernc.org/sqlite reads an empty blob as nil
		}
		if e.ID, err = outbox.ParseID(id); err != nil {
			t.Fatal(err)
		}
		if headers.Valid {
			if err := json.Unmarshal([]byte(headers.String), &e.Headers); err != nil {
				t.Fatal(err)
			}
		}
		if micros.Valid {
			e.AvailableAt = time.UnixMicro(micros.Int64).UTC()
		}
		events = append(events, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

func connect(t *testing.T, url string, mode pgx.QueryExecMode) *pgx.Conn {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = mode
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func beginPgx(t *testing.T, conn *pgx.Conn) *transaction {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = tx.Rollback(ctx) })
	return &transaction{
		Tx:       outbox.Pgx(tx),
		commit:   func() error { return tx.Commit(ctx) },
		rollback: func() error { return tx.Rollback(ctx) },
		exec: func(query string) error {
			_, err := tx.Exec(ctx, query)
			return err
		},
	}
}
