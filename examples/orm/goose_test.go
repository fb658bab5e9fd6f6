package orm

import (
	"io/fs"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
)

// goose cuts files at semicolons and comments; names that need their quotes get
// through it, up and down.
func TestGoose_QuotedNames(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]outbox.Names{
		"space and quotes": {Prefix: `Out"box of 'mine'`, Inbox: "in box"},
		"dollars":          {Prefix: "a$$b $1 $x$", Inbox: "in$$"},
		"minus":            {Prefix: "my-out-box - x", Inbox: "BEGIN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, db := range []database{open(t, "pgx", outbox.Postgres, testenv.Postgres(t).Database(t)), openSQLite(t)} {
				dialect := goose.DialectPostgres
				if db.dialect == outbox.SQLite {
					dialect = goose.DialectSQLite3
				}
				dir, err := outbox.Migrations(db.dialect, n, outbox.MigrationOptions{Doorbell: outbox.DoorbellOn})
				if err != nil {
					t.Fatal(err)
				}
				provider, err := goose.NewProvider(dialect, db.DB, dir, goose.WithTableName("other_versions"))
				if err != nil {
					t.Fatal(err)
				}
				files, err := fs.Glob(dir, "*.sql")
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if done, err := provider.Up(t.Context()); err != nil || len(done) != len(files) {
						t.Fatalf("%s: up: %d migrations, %v", db.dialect, len(done), err)
					}
					w, err := outbox.NewWriter(db.dialect, outbox.Config{Names: n})
					if err != nil {
						t.Fatal(err)
					}
					if err := PlaceSQL(t.Context(), db.DB, w, Order{ID: 1}); err != nil {
						t.Fatal(err)
					}
					if _, err := db.ExecContext(t.Context(), `DELETE FROM orders`); err != nil {
						t.Fatal(err)
					}
					if _, err := provider.DownTo(t.Context(), 0); err != nil {
						t.Fatalf("%s: down: %v", db.dialect, err)
					}
				}
			}
		})
	}
}
