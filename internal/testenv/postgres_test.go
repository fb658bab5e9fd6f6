//go:build unix

package testenv

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgres_GivesEachTestADatabase(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	for range 3 {
		url := pg.Database(t)
		pg.Exec(t, url, `CREATE TABLE a (b int); INSERT INTO a VALUES (7)`)
		if got := pg.Query(t, url, `SELECT b FROM a`); len(got) != 1 || got[0] != "7" {
			t.Errorf("rows %v, want one 7", got)
		}
	}
}

func TestDatabase_TakesEncodingAndOwner(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	role := pg.Role(t, "")
	url := As(t, pg.Database(t, Encoding("LATIN1"), Owner(role)), role)
	if got := pg.Query(t, url, `SHOW server_encoding`)[0]; got != "LATIN1" {
		t.Errorf("encoding %s", got)
	}
	pg.Exec(t, url, `CREATE SCHEMA mine`)
}

func TestPostgres_RefusesWrongPasswords(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	wrong := strings.Replace(pg.Admin(), Password, "wrong", 1)
	if err := execute(wrong, `SELECT 1`); err == nil || !strings.Contains(err.Error(), "28P01") {
		t.Errorf("error %v, want a refused password", err)
	}
}

func TestStartPostgres_SurvivesCrashes(t *testing.T) {
	t.Parallel()
	pg := StartPostgres(t, PGConfig{Settings: map[string]string{"max_connections": "17"}})
	url := pg.Database(t)
	pg.Exec(t, url, `CREATE TABLE a (b int)`)
	pg.Exec(t, url, `INSERT INTO a VALUES (1)`)
	pg.Kill()
	if err := execute(url, `SELECT 1`); err == nil {
		t.Error("a killed server answers")
	}
	pg.Start()
	pg.Exec(t, url, `INSERT INTO a VALUES (2)`)
	pg.Restart()
	if got := pg.Query(t, url, `SELECT count(*) FROM a`)[0]; got != "2" {
		t.Errorf("%s rows after a crash and a restart, want 2", got)
	}
	if got := pg.Query(t, url, `SHOW max_connections`)[0]; got != "17" {
		t.Errorf("max_connections %s, want the test's 17", got)
	}
}

func TestPG_PauseStopsEveryProcess(t *testing.T) {
	t.Parallel()
	pg := StartPostgres(t, PGConfig{})
	conn, err := pgx.Connect(t.Context(), pg.Admin())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	pg.Pause()
	answered := make(chan error, 1)
	go func() { answered <- conn.Ping(context.WithoutCancel(t.Context())) }()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	pg.Resume()
	if err := <-answered; err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestPG_TerminateBackendsFollowsTheFilter(t *testing.T) {
	t.Parallel()
	pg := Postgres(t)
	url := pg.Database(t)
	conn, err := pgx.Connect(t.Context(), url+"&application_name=victim")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	filter := `application_name = 'victim' AND datname = '` + conn.Config().Database + `'`
	if n := pg.TerminateBackends(t, filter); n != 1 {
		t.Errorf("%d sessions ended, want 1", n)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the session lives")
	}
}

func TestPG_StandbyStreamsAndIsPromoted(t *testing.T) {
	t.Parallel()
	for _, sync := range []bool{false, true} {
		pg := StartPostgres(t, PGConfig{SyncReplica: sync})
		url := pg.Database(t)
		pg.Exec(t, url, `CREATE TABLE a (b int); INSERT INTO a VALUES (1)`)
		standby := pg.Standby(t)
		// A synchronous primary answers only after the standby has flushed.
		pg.Exec(t, url, `INSERT INTO a VALUES (2)`)
		if !sync {
			pg.Stop() // an orderly stop sends everything first
		} else {
			pg.Kill()
		}
		standby.Promote(t)
		standbyURL := strings.Replace(url, pg.Addr(), standby.Addr(), 1)
		standby.Exec(t, standbyURL, `INSERT INTO a VALUES (3)`)
		if got := standby.Query(t, standbyURL, `SELECT count(*) FROM a`)[0]; got != "3" {
			t.Errorf("synchronous %t: %s rows after the promotion, want 3", sync, got)
		}
	}
}

func TestStartPostgres_RunsNewerVersions(t *testing.T) {
	t.Parallel()
	for _, version := range []int{17, 18} {
		t.Run(strconv.Itoa(version), func(t *testing.T) {
			t.Parallel()
			pg := StartPostgres(t, PGConfig{Version: version})
			url := pg.Database(t)
			pg.Exec(t, url, `CREATE TABLE a (b int); INSERT INTO a VALUES (1)`)
			pg.Kill()
			pg.Start()
			standby := pg.Standby(t)
			if got := standby.Query(t, standby.Admin(), `SHOW server_version_num`)[0]; !strings.HasPrefix(got, strconv.Itoa(version)) {
				t.Errorf("version %s, want %d", got, version)
			}
			if got := standby.Query(t, standby.Admin(), `SELECT pg_is_in_recovery()`)[0]; got != "t" {
				t.Error("the standby is none")
			}
		})
	}
}

func TestPgBouncer_PoolsTransactions(t *testing.T) {
	t.Parallel()
	pg := StartPostgres(t, PGConfig{})
	b := PgBouncer(t, pg, PgBouncerConfig{PoolSize: 2})
	role := pg.Role(t, "")
	url := b.URL(As(t, pg.Database(t), role))
	for _, then := range []func(){b.Restart, func() { b.Kill(); b.Start() }, pg.Restart, func() {}} {
		if got := pg.Query(t, url, `SELECT current_user`)[0]; got != role {
			t.Errorf("user %s, want %s", got, role)
		}
		then()
	}
}
