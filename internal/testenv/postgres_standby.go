//go:build unix

package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby starts a streaming standby of the server, private to the test, and
// returns when it answers queries and streams. With PGConfig.SyncReplica the
// primary from then on waits for it in each commit.
//
// The copy is made as pg_basebackup makes it, with pg_backup_start and
// pg_backup_stop around a copy of the files: the packages of PostgreSQL 17 and
// 18 that tests run on do not contain pg_basebackup.
func (p *PG) Standby(t testing.TB) *PG {
	t.Helper()
	standby, err := preparePostgres(p.Version)
	if err != nil {
		t.Fatalf("standby: %v", err)
	}
	standby.adopt(t, standby.freeSharedMemory)
	if err := p.backup(standby.data()); err != nil {
		t.Fatalf("copy for a standby: %v", err)
	}
	name := "standby_" + unique()
	primary := p.admin
	primary.RawQuery = url.Values{"sslmode": {"disable"}, "application_name": {name}}.Encode()
	err = errors.Join(
		standby.configure(map[string]string{"primary_conninfo": primary.String()}),
		writeFile(filepath.Join(standby.data(), "standby.signal"), "", 0o600),
	)
	if err != nil {
		t.Fatalf("standby's configuration: %v", err)
	}
	standby.Start()
	p.awaitStandby(t, name, "streaming")
	if p.syncReplica {
		p.Exec(t, p.Admin(), `ALTER SYSTEM SET synchronous_standby_names = '`+name+`'`)
		p.Exec(t, p.Admin(), `SELECT pg_reload_conf()`)
		p.awaitStandby(t, name, "sync")
	}
	return standby
}

// Promote makes a standby a primary of its own and returns when it accepts
// writes. What the old primary had not streamed by then is lost to it.
func (p *PG) Promote(t testing.TB) {
	t.Helper()
	if got := p.Query(t, p.Admin(), `SELECT pg_promote(true, 60)`); got[0] != "t" {
		t.Fatal("standby not promoted within 60 s")
	}
}

func (p *PG) awaitStandby(t testing.TB, name, state string) {
	t.Helper()
	sql := fmt.Sprintf(`SELECT 1 FROM pg_stat_replication WHERE application_name = '%s' AND '%s' IN (state, sync_state)`, name, state)
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if len(p.Query(t, p.Admin(), sql)) == 1 {
			return
		}
	}
	t.Fatalf("standby %s never was %s", name, state)
}

// backup copies the running server's data folder to the folder to.
func (p *PG) backup(to string) error {
	return connected(p.Admin(), func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, `SELECT pg_backup_start('standby', true)`); err != nil {
			return err
		}
		// The log is streamed from the primary; slots and the lock file are the
		// primary's own.
		err := copyFolder(p.data(), to, "postmaster.pid", "postmaster.opts", "pg_wal/[0-9A-F]*", "pg_replslot/*", "pg_dynshmem/*")
		var label string
		if errStop := conn.QueryRow(ctx, `SELECT labelfile FROM pg_backup_stop(false)`).Scan(&label); err != nil || errStop != nil {
			return errors.Join(err, errStop)
		}
		// The label says where the replay begins; without it the copy would be
		// taken for a crashed server and come up corrupt.
		return writeFile(filepath.Join(to, "backup_label"), label, 0o600)
	})
}
