package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/postrider/postrider/relay"
)

// pool holds the connections to one file.
type pool struct {
	write, read *sql.DB
	file        os.FileInfo
}

func (p *pool) close() error { return errors.Join(p.write.Close(), p.read.Close()) }

// connections returns the pool for the file that now has the configured name.
//
// A file that was restored by renaming a copy over it leaves open connections
// at the old one, which has no name any more: reads would find old events for
// ever and settles would be lost. So every call compares, which costs a
// microsecond.
func (s *Store) connections() (*pool, error) {
	name := s.cfg.file()
	file, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.pool != nil && os.SameFile(s.pool.file, file) {
		return s.pool, nil
	}
	if s.pool != nil {
		s.pool.close() //nolint:errcheck // nothing of the old file is of use
		s.pool = nil
		s.files++
		s.highest = 0
	}
	p := &pool{file: file}
	if p.write, err = connect(name, s.cfg.BusyTimeout, false); err != nil {
		return nil, err
	}
	if p.read, err = connect(name, s.cfg.BusyTimeout, true); err != nil {
		p.write.Close() //nolint:errcheck // not connected yet
		return nil, err
	}
	s.pool = p
	return p, nil
}

func connect(name string, busy time.Duration, readOnly bool) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dataSource(name, busy, readOnly))
	if err != nil {
		return nil, fmt.Errorf("data source name: %w", err)
	}
	db := sql.OpenDB(connector)
	conns := 1
	if readOnly {
		conns = 4 // three of the relay's calls at once, and the bell
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// dataSource makes the name under which each connection is opened, so that
// each has the same settings:
//
//   - mode=rw: a mistyped name is an error and not a new, empty database
//   - busy_timeout first: changing to WAL may already have to wait
//   - synchronous: set again before each write, see write
//   - journal_size_limit: a log that grew in a bulk load is cut again
//   - defensive, trusted_schema: a damaged or hostile file runs no code here
func dataSource(name string, busy time.Duration, readOnly bool) string {
	q := url.Values{
		"mode":       {"rw"},
		"_txlock":    {"immediate"},
		"_defensive": {"1"},
		"_error_rc":  {"1"},
		"_pragma": {
			"busy_timeout(" + strconv.FormatInt(busy.Milliseconds(), 10) + ")",
			"journal_mode(WAL)",
			"synchronous(NORMAL)",
			"journal_size_limit(67108864)",
			"temp_store(MEMORY)",
			"trusted_schema(0)",
		},
	}
	if readOnly {
		q.Set("_query_only", "1")
	}
	name = filepath.ToSlash(name)
	if len(name) > 1 && name[1] == ':' {
		name = "/" + name // file:/C:/… is what SQLite reads as a drive
	}
	escaped := (&url.URL{Path: name}).EscapedPath()
	return "file:" + strings.TrimPrefix(escaped, "./") + "?" + q.Encode()
}

// read runs f in one snapshot.
func (s *Store) read(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.retry(ctx, func(p *pool) error {
		tx, err := p.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // a reader has nothing to keep
		return f(tx)
	})
}

// write runs f in a transaction that has the write lock from its first
// statement on. f may run several times and must not leave traces outside tx.
//
// With durable the commit is on the disk when write returns. Without, a power
// cut may undo it, though never half of it: WAL with synchronous=NORMAL.
// synchronous cannot be changed inside a transaction, so it is set before each.
func (s *Store) write(ctx context.Context, durable bool, f func(tx *sql.Tx) error) error {
	level := "PRAGMA synchronous = NORMAL"
	if durable {
		level = "PRAGMA synchronous = FULL"
	}
	return s.retry(ctx, func(p *pool) error {
		conn, err := p.write.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:errcheck // back to the pool
		if _, err := conn.ExecContext(ctx, level); err != nil {
			return err
		}
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// tries bounds how often a busy file is tried; each try has the whole busy
// timeout. Some locks do not wait for that timeout at all (a change to WAL, a
// recovery, a snapshot that another writer overtook), hence also the pause.
const tries = 6

func (s *Store) retry(ctx context.Context, f func(*pool) error) error {
	for try := 1; ; try++ {
		p, err := s.connections()
		if err != nil {
			return err
		}
		err = f(p)
		if err == nil || !isBusy(err) || try == tries {
			return err
		}
		s.retries.Add(1)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(try*try) * 5 * time.Millisecond):
		}
	}
}

func isBusy(err error) bool {
	code := errorCode(err) & 0xff // the low byte, whatever kind of busy it is
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_LOCKED
}

func errorCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// explain puts the object in front of an error, and marks what retrying
// cannot heal.
func (s *Store) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %q in %s: %w", what, s.cfg.Names.Table, s.cfg.file(), err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return relay.Hint(err, "the database file is gone; restore it, or stop the relay")
	case errorCode(err)&0xff == sqlite3.SQLITE_FULL:
		return relay.Hint(err, "free disk space, or shorten the retention")
	}
	return err
}
