package lint

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

func TestCode_NoInitOutsideCmd(t *testing.T) {
	for _, p := range packages(t) {
		if under(p.path(), "cmd") {
			continue
		}
		for _, f := range p.Files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s: init()", at(t, fn))
				}
			}
		}
	}
}

// A package-level variable is a constant that Go cannot spell (errors, tables,
// patterns, embedded files): nobody assigns to it, takes its address, or gives
// it a type made for sharing. The exceptions have reasons.
func TestCode_NoPackageState(t *testing.T) {
	exceptions := map[string]bool{
		"cmd/postrider.release":           true, // the linker sets it
		"outbox.newest":                   true, // ids grow within a process only if all callers share it
		"internal/testenv.leash":          true, // the watchdog's pipe lives as long as the process
		"internal/testenv.copied":         true, // servers, and what they run from, are shared by a test binary
		"internal/testenv.initialized":    true,
		"internal/testenv.sharedPostgres": true,
	}
	for _, p := range packages(t) {
		vars := map[string]bool{}
		eachPackageVar(p, func(spec *ast.ValueSpec, _ string, name *ast.Ident) {
			if name.Name == "_" || exceptions[p.path()+"."+name.Name] {
				return
			}
			vars[name.Name] = true
			if shared(spec.Type) {
				t.Errorf("%s: %s is made to be changed", at(t, name), name.Name)
			}
			if spec.Type != nil && len(spec.Values) == 0 && !embedded(p, spec) {
				t.Errorf("%s: %s has no value yet: somebody changes it later", at(t, name), name.Name)
			}
		})
		for _, f := range p.Files {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
					noWrites(t, fn, vars)
				}
			}
		}
	}
}

// noWrites reports assignments to package variables in fn. It goes by name: a
// local variable of the same name counts as the local one.
func noWrites(t *testing.T, fn *ast.FuncDecl, vars map[string]bool) {
	t.Helper()
	local := locals(fn)
	check := func(e ast.Expr, n ast.Node) {
		if name := rootName(e); vars[name] && !local[name] {
			t.Errorf("%s: %s is changed", at(t, n), name)
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, left := range n.Lhs {
					check(left, n)
				}
			}
		case *ast.IncDecStmt:
			check(n.X, n)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				check(n.X, n)
			}
		}
		return true
	})
}

// locals are the names that fn declares, parameters included.
func locals(fn *ast.FuncDecl) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					names[rootName(left)] = true
				}
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				names[rootName(n.Key)] = true
				if n.Value != nil {
					names[rootName(n.Value)] = true
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				names[id.Name] = true
			}
		}
		return true
	})
	return names
}

func shared(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && (rootName(sel) == "sync" || rootName(sel) == "atomic")
}

// embedded reports a variable that the compiler fills from files, which a
// directive right above it asks for.
func embedded(p pkg, spec *ast.ValueSpec) bool {
	for _, f := range p.Files {
		for _, group := range f.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//go:embed ") && c.End() < spec.Pos() && spec.Pos()-c.End() < 200 {
					return true
				}
			}
		}
	}
	return false
}

// A sleep is not woken by a cancelled context and cannot be driven by a test:
// a select on a timer can.
func TestCode_NoSleep(t *testing.T) {
	for _, p := range packages(t) {
		if under(p.path(), "internal") || under(p.path(), "cmd") || under(p.path(), "bench") || under(p.path(), "examples") || suite(p.path()) {
			continue
		}
		for _, f := range p.Files {
			ast.Inspect(f, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" && rootName(sel.X) == "time" {
					t.Errorf("%s: time.Sleep", at(t, sel))
				}
				return true
			})
		}
	}
}
