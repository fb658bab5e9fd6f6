package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/testenv"
)

// TestMain lets the test binary stand in for the program, so that tests of
// signals have a process of their own without a build.
func TestMain(m *testing.M) {
	if os.Getenv("POSTRIDER_TEST_AS_PROGRAM") != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// canary is in every password of these tests; shown must never have it.
const canary = "c4nary-pa55word"

// result is what a run of the program gave.
type result struct {
	code        int
	out, errors string
}

// shown is everything that was printed.
func (r result) shown() string { return r.out + r.errors }

// program runs the program in this process. It fails the test if a password was
// shown or an error has more than its line and its hint.
func program(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return programWith(t, "", env, args...)
}

func programWith(t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	return programUntil(t.Context(), t, stdin, env, args...)
}

func programUntil(ctx context.Context, t *testing.T, stdin string, env []string, args ...string) result {
	t.Helper()
	var out, errors lockedBuffer
	env = append([]string{"POSTRIDER_ADMIN__LISTEN=127.0.0.1:0"}, env...)
	code := run(ctx, args, strings.NewReader(stdin), &out, &errors, env)
	r := result{code, out.String(), errors.String()}
	silentOn(t, "postrider "+strings.Join(args, " "), r.shown())
	return r
}

// silentOn fails the test if a text has a secret.
func silentOn(t *testing.T, what, text string) {
	t.Helper()
	for _, secret := range []string{canary, whisper} {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s shows a secret:\n…%s…", what, text[max(0, at-200):min(at+100, len(text))])
		}
	}
}

// must is program for what has to succeed; it returns the output.
func must(t *testing.T, env []string, args ...string) string {
	t.Helper()
	r := program(t, env, args...)
	if r.code != exitFine {
		t.Fatalf("postrider %s: exit %d\n%s", strings.Join(args, " "), r.code, r.shown())
	}
	return r.out
}

// database is one that a test has for itself.
type database struct {
	url string
	pg  *testenv.PG // nil for SQLite
}

func (d database) env() []string { return []string{"POSTRIDER_DATABASE=" + d.url} }

// eachKind runs a test on every kind of database.
func eachKind(t *testing.T, test func(t *testing.T, d database)) {
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, newPG(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(t, newFileDB(t))
	})
}

func newPG(t *testing.T) database {
	pg := testenv.Postgres(t)
	return database{pg.Database(t), pg}
}

func newFileDB(t *testing.T) database {
	return database{url: "sqlite:" + filepath.Join(t.TempDir(), "app.db")}
}

// createFile makes an empty SQLite file.
func (d database) createFile(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(sqliteFile(d.url), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// exec runs SQL of the test's own.
func (d database) exec(t *testing.T, sql string) {
	t.Helper()
	open := openSQLite
	if d.pg != nil {
		open = openPostgres
	}
	db, err := open(d.url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// lines are the lines of a text without the empty ones.
func lines(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}

func contains(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}
