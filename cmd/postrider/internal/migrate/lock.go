package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// exclusively runs f while no other run migrates the same tables. On SQLite the
// file's own write lock and the record's primary key suffice: see up.
func (m *Migrator) exclusively(ctx context.Context, f func() error) error {
	if m.dialect == outbox.SQLite {
		return f()
	}
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("lock of migrations: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // the end of the transaction is the unlock
	// The transaction idles while the migrations run on another connection; it
	// holds no snapshot, so nothing waits for it.
	for _, setting := range []string{
		"SET LOCAL idle_in_transaction_session_timeout = 0",
		fmt.Sprintf("SET LOCAL lock_timeout = %d", m.wait.Milliseconds()),
	} {
		if _, err := tx.ExecContext(ctx, setting); err != nil {
			return fmt.Errorf("lock of migrations: %w", err)
		}
	}
	if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", m.lockKey()); err != nil {
		if isLockTimeout(err) {
			return relay.Hint(fmt.Errorf("another run has been migrating these tables for more than %s", m.wait),
				"wait for it, or see who it is in pg_stat_activity")
		}
		return fmt.Errorf("lock of migrations: %w", err)
	}
	return f()
}

// lockKey is the same for every run over the same tables of a database.
func (m *Migrator) lockKey() int64 {
	sum := sha256.Sum256([]byte("postrider migrate\x00" + m.names.Schema + "\x00" + m.names.Prefix))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// holders describes the sessions that keep the outbox locked, for the hint of a
// migration that gave up waiting (S50: a migration that waits for a lock stops
// every writer behind it, so ours gives up after 3 s and says whom to ask).
const selectHolders = `
SELECT a.pid, coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8
FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE l.granted AND l.locktype = 'relation' AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation IN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                     WHERE n.nspname = $1 AND (c.relname = $2 OR c.relname LIKE $3))
GROUP BY 1, 2 ORDER BY 2 DESC LIMIT 5`

func (m *Migrator) holders(ctx context.Context) string {
	rows, err := m.db.QueryContext(ctx, selectHolders, m.names.Schema, m.names.Table, likePrefix(m.names.Prefix+"_"))
	if err != nil {
		return ""
	}
	defer rows.Close() //nolint:errcheck // a hint may be short
	text := ""
	for rows.Next() {
		var pid int
		var age float64
		if rows.Scan(&pid, &age) != nil {
			break
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("pid %d (open for %s)", pid, time.Duration(age*float64(time.Second)).Round(time.Second))
	}
	if rows.Err() != nil {
		return ""
	}
	return text
}

// likePrefix is a LIKE pattern of the names that begin so.
func likePrefix(prefix string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(prefix) + "%"
}

// explain turns a lock timeout into words that say what to do.
func (m *Migrator) explain(ctx context.Context, err error) error {
	if !isLockTimeout(err) {
		return err
	}
	hint := "run it again"
	if who := m.holders(ctx); who != "" {
		hint = "run it again, or end first what holds the tables: " + who
	}
	return relay.Hint(errors.New("the tables are locked by other sessions: gave up after 3s so that writers do not wait; nothing was changed"), hint)
}
