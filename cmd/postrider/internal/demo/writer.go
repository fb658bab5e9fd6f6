package demo

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/postrider/postrider/outbox"
)

// database is the application's: accounts, and the outbox beside them.
type database struct{ *sql.DB }

func openDatabase(ctx context.Context, file string) (*database, error) {
	db, err := openFile(file)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `CREATE TABLE account (name TEXT PRIMARY KEY, version INTEGER NOT NULL)`)
	if err != nil {
		db.Close() //nolint:errcheck // the statement's error says more
		return nil, err
	}
	return &database{db}, nil
}

// openFile opens a SQLite file whose transactions take the write lock at once.
func openFile(file string) (*sql.DB, error) {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	query := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+query.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func (d *database) pending(ctx context.Context) (n int, err error) {
	err = d.QueryRowContext(ctx, `SELECT count(*) FROM outbox`).Scan(&n)
	return n, err
}

// writeLog is what the writers know: which events they committed, in the order
// of their accounts.
type writeLog struct {
	committed  map[string]change
	rolledBack int
}

type change struct {
	account string
	version int64
}

const accounts = 20

// writeEvents changes accounts and writes an event about each change, in one
// transaction. Every tenth transaction is rolled back, change and event.
func writeEvents(ctx context.Context, db *database, n int, log *writeLog) error {
	log.committed = make(map[string]change, n)
	writer, err := outbox.NewWriter(outbox.SQLite, outbox.Config{})
	if err != nil {
		return err
	}
	for i := range n {
		id := outbox.NewID()
		c, err := writeOne(ctx, db, writer, id, fmt.Sprintf("account-%02d", i%accounts), i%10 != 9)
		if err != nil {
			return err
		}
		if i%10 == 9 {
			log.rolledBack++
			continue
		}
		log.committed[id.String()] = c
	}
	return nil
}

func writeOne(ctx context.Context, db *database, w *outbox.Writer, id outbox.ID, account string, commit bool) (change, error) {
	c := change{account: account}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return c, err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	err = tx.QueryRowContext(ctx, `INSERT INTO account VALUES (?, 1)
		ON CONFLICT (name) DO UPDATE SET version = version + 1 RETURNING version`, account).Scan(&c.version)
	if err != nil {
		return c, err
	}
	event, err := outbox.JSON(topic, account, "account.changed", map[string]any{"account": account, "version": c.version})
	if err != nil {
		return c, err
	}
	event.ID, event.SubjectVersion = id, c.version
	if err := w.Write(ctx, tx, event); err != nil {
		return c, err
	}
	if !commit {
		return c, nil
	}
	return c, tx.Commit()
}
