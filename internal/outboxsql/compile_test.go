package outboxsql

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What compiles where a transaction belongs decides whether the dual write can
// happen at all, so it is a test: each line is type-checked as an application
// would write it.
func TestTx_OnlyTransactionsCompile(t *testing.T) {
	t.Parallel()
	check := checker(t)
	for _, c := range []struct {
		name, argument string
		compiles       bool
	}{
		{"sql.Tx", "new(sql.Tx)", true},
		{"pgx.Tx", "outbox.Pgx(pgx.Tx(nil))", true},
		{"pgxpool.Tx", "outbox.Pgx(new(pgxpool.Tx))", true},
		{"TxFunc", "outbox.TxFunc(nil)", true},
		{"Recorder", "new(outboxtest.Recorder)", true},

		{"sql.DB", "new(sql.DB)", false},
		{"sql.Conn", "new(sql.Conn)", false},
		{"sql.Stmt", "new(sql.Stmt)", false},
		{"pgx.Tx without Pgx", "pgx.Tx(nil)", false},
		{"pgx.Conn", "new(pgx.Conn)", false},
		{"pgx.Conn in Pgx", "outbox.Pgx(new(pgx.Conn))", false},
		{"pgxpool.Pool", "new(pgxpool.Pool)", false},
		{"pgxpool.Pool in Pgx", "outbox.Pgx(new(pgxpool.Pool))", false},
		{"pgxpool.Conn in Pgx", "outbox.Pgx(new(pgxpool.Conn))", false},
		{"sql.Tx in Pgx", "outbox.Pgx(new(sql.Tx))", false},
		{"sql.DB in Pgx", "outbox.Pgx(new(sql.DB))", false},
		{"a function that is not a TxFunc", "func() {}", false},
	} {
		for _, call := range []string{"new(outbox.Writer).Write(ctx, %s)", `new(inbox.Inbox).Process(ctx, %s, "", inbox.Message{}, nil)`} {
			err := check(fmt.Sprintf(call, c.argument))
			switch {
			case c.compiles && err != nil:
				t.Errorf("%s: %v", c.name, err)
			case !c.compiles && err == nil:
				t.Errorf("%s compiles as a transaction", c.name)
			case !c.compiles && !strings.Contains(err.Error(), "does not match") && !strings.Contains(err.Error(), "does not implement") &&
				!strings.Contains(err.Error(), "missing method"):
				// A mistake in the snippet would pass for a refusal.
				t.Errorf("%s does not compile for another reason: %v", c.name, err)
			}
		}
	}
}

var snippetImports = []string{
	"context", "database/sql",
	"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool",
	"github.com/postrider/postrider/outbox", "github.com/postrider/postrider/outbox/inbox",
	"github.com/postrider/postrider/outbox/outboxtest",
}

// checker returns a function that type-checks one call against the compiled
// packages, which the go command names.
func checker(t *testing.T) func(call string) error {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, snippetImports...)...)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.Bytes())
	}
	exports := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		path, file, _ := strings.Cut(lines.Text(), "\t")
		exports[path] = file
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })

	return func(call string) error {
		var source strings.Builder
		source.WriteString("package snippet\n")
		for _, path := range snippetImports {
			fmt.Fprintf(&source, "import %q\n", path)
		}
		source.WriteString("var (\n_ *sql.Tx\n_ pgx.Tx\n_ *pgxpool.Pool\n_ inbox.Message\n_ outboxtest.Match\n_ outbox.Event\n)\n")
		fmt.Fprintf(&source, "func _(ctx context.Context) {\n%s\n}\n", call)
		file, err := parser.ParseFile(fset, "snippet.go", source.String(), 0)
		if err != nil {
			return err
		}
		_, err = (&types.Config{Importer: imports}).Check("snippet", fset, []*ast.File{file}, nil)
		return err
	}
}
