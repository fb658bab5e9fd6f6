//go:build unix

package testenv

import (
	"strings"
	"testing"
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
