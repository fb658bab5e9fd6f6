package orm

import (
	"bytes"
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	entdialect "entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq"
	gormsqlite "github.com/libtnb/sqlite"
	"github.com/pressly/goose/v3"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/outbox/outboxtest"
)

// database is a fresh database, reached through one driver.
type database struct {
	*sql.DB
	driver  string
	dialect outbox.Dialect
	url     string
}

type place func(ctx context.Context, w *outbox.Writer, o Order) error

// libraries make the place function of each example; nil where the library does
// not know the database.
var libraries = map[string]func(t *testing.T, db database) place{
	"database/sql": func(_ *testing.T, db database) place {
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceSQL(ctx, db.DB, w, o) }
	},
	"sqlc": func(_ *testing.T, db database) place {
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceSQLC(ctx, db.DB, w, o) }
	},
	"sqlx": func(_ *testing.T, db database) place {
		x := sqlx.NewDb(db.DB, db.driver)
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceSQLX(ctx, x, w, o) }
	},
	"pgx": func(t *testing.T, db database) place {
		if db.driver != "pgx" {
			return nil
		}
		pool, err := pgxpool.New(t.Context(), db.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlacePgx(ctx, pool, w, o) }
	},
	"gorm":                          func(t *testing.T, db database) place { return placeGorm(t, db, false) },
	"gorm with prepared statements": func(t *testing.T, db database) place { return placeGorm(t, db, true) },
	"bun": func(_ *testing.T, db database) place {
		var d schema.Dialect = pgdialect.New()
		if db.dialect == outbox.SQLite {
			d = sqlitedialect.New()
		}
		b := bun.NewDB(db.DB, d)
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceBun(ctx, b, w, o) }
	},
	"ent": func(_ *testing.T, db database) place {
		d := entdialect.Postgres
		if db.dialect == outbox.SQLite {
			d = entdialect.SQLite
		}
		driver := entsql.OpenDB(d, db.DB)
		return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceEnt(ctx, driver, w, o) }
	},
}

func placeGorm(t *testing.T, db database, prepare bool) place {
	t.Helper()
	g := openGorm(t, db, prepare)
	return func(ctx context.Context, w *outbox.Writer, o Order) error { return PlaceGorm(ctx, g, w, o) }
}

func openGorm(t *testing.T, db database, prepare bool) *gorm.DB {
	t.Helper()
	d := gormpostgres.New(gormpostgres.Config{Conn: db.DB})
	if db.dialect == outbox.SQLite {
		d = &gormsqlite.Dialector{Conn: db.DB}
	}
	g, err := gorm.Open(d, &gorm.Config{PrepareStmt: prepare, Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func openPostgres(driver, option string) func(t *testing.T) database {
	return func(t *testing.T) database {
		t.Helper()
		url := testenv.Postgres(t).Database(t)
		if option != "" {
			separator := "?"
			if strings.Contains(url, "?") {
				separator = "&"
			}
			url += separator + option
		}
		return open(t, driver, outbox.Postgres, url)
	}
}

func openSQLite(t *testing.T) database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.db")
	return open(t, "sqlite", outbox.SQLite, "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
}

// open makes the tables with goose, from the embedded migrations.
func open(t *testing.T, driver string, d outbox.Dialect, url string) database {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	migrations, err := outbox.Migrations(d, outbox.Names{}, outbox.MigrationOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gooseDialect := goose.DialectPostgres
	if d == outbox.SQLite {
		gooseDialect = goose.DialectSQLite3
	}
	provider, err := goose.NewProvider(gooseDialect, db, migrations)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), CreateTable); err != nil {
		t.Fatal(err)
	}
	return database{db, driver, d, url}
}

var databases = map[string]func(t *testing.T) database{
	"sqlite": openSQLite,

	"postgres, pgx":              openPostgres("pgx", ""),
	"postgres, lib/pq":           openPostgres("postgres", "sslmode=disable"),
	"postgres, lib/pq in binary": openPostgres("postgres", "sslmode=disable&binary_parameters=yes"),
}

func TestEveryLibrary_EventAndRowCommitTogether(t *testing.T) {
	t.Parallel()
	for databaseName, open := range databases {
		for libraryName, library := range libraries {
			t.Run(libraryName+" on "+databaseName, func(t *testing.T) {
				t.Parallel()
				db := open(t)
				place := library(t, db)
				if place == nil {
					t.Skip("the library does not know this driver")
				}
				w, err := outbox.NewWriter(db.dialect, outbox.Config{})
				if err != nil {
					t.Fatal(err)
				}
				if err := place(t.Context(), w, Order{ID: 42, Cents: 999}); err != nil {
					t.Fatal(err)
				}
				outboxtest.RequireWritten(t, db, outboxtest.Topic("orders"), outboxtest.Key("42"),
					outboxtest.Type("order.placed"), outboxtest.JSON(`{"id": 42, "cents": 999}`))

				// The row is refused: no event.
				if err := place(t.Context(), w, Order{ID: 43, Cents: -1}); err == nil {
					t.Error("an order of negative cents was placed")
				}
				// The event is refused: no row.
				tight, err := outbox.NewWriter(db.dialect, outbox.Config{MaxPayload: 1})
				if err != nil {
					t.Fatal(err)
				}
				if err := place(t.Context(), tight, Order{ID: 44, Cents: 1}); err == nil {
					t.Error("an event over the limit was written")
				}
				outboxtest.RequireNotWritten(t, db, outboxtest.Key("43"))
				outboxtest.RequireNotWritten(t, db, outboxtest.Key("44"))
				var rows int
				if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM orders`).Scan(&rows); err != nil || rows != 1 {
					t.Errorf("%d orders, %v", rows, err)
				}
			})
		}
	}
}

func TestGorm_OutsideATransactionIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := gormTx(openGorm(t, openSQLite(t), false)); err == nil {
		t.Fatal("a pool was taken for a transaction")
	}
}

// A bun.Tx drops the arguments, which PostgreSQL answers with an error: no event
// is lost without a word.
func TestBun_PassingTheWrapperIsAnErrorOnPostgreSQL(t *testing.T) {
	t.Parallel()
	db := openPostgres("pgx", "")(t)
	w, err := outbox.NewWriter(db.dialect, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := bun.NewDB(db.DB, pgdialect.New()).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if err := w.Write(t.Context(), tx, outbox.Event{Topic: "t"}); err == nil {
		t.Fatal("the wrapper wrote an event without its arguments")
	}
}

// Drivers of database/sql pass many events alike: order, bytes and NULLs.
func TestEveryDriver_ManyEvents(t *testing.T) {
	t.Parallel()
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t)
			w, err := outbox.NewWriter(db.dialect, outbox.Config{})
			if err != nil {
				t.Fatal(err)
			}
			events := []outbox.Event{
				{Topic: "tombstone"},
				{Topic: "empty", Payload: []byte{}},
				{Topic: "bytes", Payload: all},
				{Topic: `{"x",NULL,\x41}`, Key: "🎉", Type: `a"b\c`, Payload: []byte(`\x41`), Headers: map[string]string{"x": `{"a":'b'}`}},
			}
			for range 10_000 {
				events = append(events, outbox.Event{Topic: "t", Payload: []byte("{}")})
			}
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if err := w.Write(t.Context(), tx, events...); err != nil {
				t.Fatal(err)
			}
			for _, e := range events[:4] { // the statement for one
				e.Topic = "1" + e.Topic
				if err := w.Write(t.Context(), tx, e); err != nil {
					t.Fatal(err)
				}
			}
			for _, prefix := range []string{"", "1"} {
				outboxtest.RequireWritten(t, tx, outboxtest.Topic(prefix+"tombstone"), outboxtest.Tombstone())
				outboxtest.RequireWritten(t, tx, outboxtest.Topic(prefix+"empty"), outboxtest.Bytes(nil))
				outboxtest.RequireWritten(t, tx, outboxtest.Topic(prefix+"bytes"), outboxtest.Bytes(all))
				got := outboxtest.RequireWritten(t, tx, outboxtest.Topic(prefix+events[3].Topic), outboxtest.Key("🎉"),
					outboxtest.Type(`a"b\c`), outboxtest.Header("x", `{"a":'b'}`))
				if !bytes.Equal(got.Payload, []byte(`\x41`)) {
					t.Errorf("payload %q", got.Payload)
				}
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
