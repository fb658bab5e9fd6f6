package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// Commands other than relay look at a database, or change its schema, over a
// connection of their own, which they open here. A relay's connections belong to
// its store.

// connectTimeout bounds how long a command waits for a database.
const connectTimeout = 10 * time.Second

// connection is an open database.
type connection struct {
	*sql.DB
	name    string
	dialect outbox.Dialect
	names   outbox.Names
}

// open connects to a database and makes sure that it answers. create makes a
// SQLite file that does not exist.
func (c *command) open(ctx context.Context, d config.Database, create bool) (*connection, error) {
	text, err := d.Connect()
	if err != nil {
		return nil, fmt.Errorf("database %q: %w", d.Name, err)
	}
	c.remember(text, nil)
	scheme, err := config.SchemeOf(text)
	if err != nil {
		return nil, mistake{fmt.Errorf("database %q: %w", d.Name, err)}
	}
	plugin, ok := databasePlugins[scheme]
	if !ok { // url_file changed since the configuration was checked
		return nil, wrong("database %q: no adapter for %s: in this build", d.Name, scheme)
	}
	db, err := plugin.open(text, create)
	if err != nil {
		return nil, mistake{fmt.Errorf("database %q: %w", d.Name, err)}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		db.Close() //nolint:errcheck // it never opened
		return nil, relay.Hint(fmt.Errorf("database %q: connect: %w", d.Name, err), plugin.hint(text, err))
	}
	return &connection{DB: db, name: d.Name, dialect: plugin.dialect, names: namesOf(d).WithDefaults(plugin.dialect)}, nil
}

// sql fills the names of the tables into a statement.
func (c *connection) sql(text string) string { return c.names.Expand(c.dialect, text) }

// outbox is the connection as inspect wants it.
func (c *connection) outbox() inspect.Outbox {
	return inspect.Outbox{DB: c.DB, Dialect: c.dialect, Names: c.names}
}

// checkPostgres does not pass on pgx's own text, which quotes the URL.
func checkPostgres(text string) error {
	if _, err := pgx.ParseConfig(text); err != nil {
		return errors.New("not a PostgreSQL URL, or a file it names is missing (write postgres://USER:PASSWORD@HOST:PORT/DATABASE)")
	}
	return nil
}

func checkSQLite(text string) error {
	if file := sqliteFile(text); file == "" || file == ":memory:" {
		return errors.New("not the URL of a SQLite file (write sqlite:FILE)")
	}
	return nil
}

// openPostgres connects without prepared statements, so that it works behind a
// pooler in transaction mode.
func openPostgres(text string, _ bool) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, checkPostgres(text)
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "postrider"
	}
	cfg.ConnectTimeout = connectTimeout
	return stdlib.OpenDB(*cfg), nil
}

// openSQLite opens a file. Each transaction has the write lock from its start:
// one that begins as a reader fails when it comes to write. An unknown name is
// an error unless create says so; otherwise a mistyped name is an empty database.
func openSQLite(text string, create bool) (*sql.DB, error) {
	if err := checkSQLite(text); err != nil {
		return nil, err
	}
	file := sqliteFile(text)
	mode := "rw"
	if create {
		mode = "rwc"
	}
	name := filepath.ToSlash(file)
	if len(name) > 1 && name[1] == ':' {
		name = "/" + name
	}
	query := url.Values{
		"mode": {mode}, "_txlock": {"immediate"},
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "trusted_schema(0)"},
	}
	connector, err := sqlite.NewConnector("file:" + strings.TrimPrefix((&url.URL{Path: name}).EscapedPath(), "./") + "?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db, nil
}

// sqliteFile is the file of sqlite:FILE or sqlite:///FILE.
func sqliteFile(text string) string {
	_, file, _ := strings.Cut(text, ":")
	return strings.TrimPrefix(file, "//")
}
