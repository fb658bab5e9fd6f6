package lint

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestDocs_EachPackageHasOneComment(t *testing.T) {
	for _, p := range packages(t) {
		var where []string
		for _, f := range p.Files {
			if f.Doc != nil {
				where = append(where, at(t, f.Name))
			}
		}
		if len(p.Files) > 0 && len(where) != 1 {
			t.Errorf("%s has %d package comments, want one: %v", p.ImportPath, len(where), where)
		}
	}
}

// Configuration is read by people who never see the code.
func TestDocs_EachConfigFieldIsExplained(t *testing.T) {
	for _, p := range packages(t) {
		if strings.Contains("/"+p.path()+"/", "/internal/") {
			continue // nobody outside can set it
		}
		defaults := defaulted(p)
		for name, s := range configs(p, defaults) {
			for _, field := range s.Fields.List {
				comment := field.Doc.Text() + field.Comment.Text()
				for _, id := range field.Names {
					switch {
					case !id.IsExported():
					case comment == "":
						t.Errorf("%s: %s.%s has no comment", at(t, id), name, id.Name)
					case defaults[name+"."+id.Name] && !strings.Contains(comment, "Default"):
						t.Errorf("%s: %s.%s has a default that its comment does not name", at(t, id), name, id.Name)
					}
				}
			}
		}
	}
}

// configs are the exported structs whose names end in Config, or which have
// defaults.
func configs(p pkg, defaults map[string]bool) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	for _, f := range p.Files {
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				ts := spec.(*ast.TypeSpec)
				s, ok := ts.Type.(*ast.StructType)
				if !ok || !ts.Name.IsExported() {
					continue
				}
				hasDefault := slices.ContainsFunc(slices.Collect(maps.Keys(defaults)), func(field string) bool {
					return strings.HasPrefix(field, ts.Name.Name+".")
				})
				if hasDefault || strings.HasSuffix(ts.Name.Name, "Config") {
					found[ts.Name.Name] = s
				}
			}
		}
	}
	return found
}

// defaulted are the fields "Config.Field" to which a method withDefaults gives
// a value where they have none: c.F = orDefault(c.F, …), if c.F == 0 { c.F = … }.
func defaulted(p pkg) map[string]bool {
	found := map[string]bool{}
	for _, f := range p.Files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Body == nil || !strings.EqualFold(fn.Name.Name, "withDefaults") || len(fn.Recv.List[0].Names) == 0 {
				continue
			}
			self, kind := fn.Recv.List[0].Names[0].Name, typeName(fn.Recv.List[0].Type)
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt:
					for field := range assigned(n.Body, self) {
						if mentions(n.Cond, self, field) {
							found[kind+"."+field] = true
						}
					}
				case *ast.AssignStmt:
					for field := range assigned(n, self) {
						if mentions(n.Rhs[0], self, field) {
							found[kind+"."+field] = true
						}
					}
				}
				return true
			})
		}
	}
	return found
}

// assigned are the fields of self that n assigns to.
func assigned(n ast.Node, self string) map[string]bool {
	fields := map[string]bool{}
	ast.Inspect(n, func(n ast.Node) bool {
		if assign, ok := n.(*ast.AssignStmt); ok {
			for _, left := range assign.Lhs {
				if sel, ok := left.(*ast.SelectorExpr); ok && rootName(sel.X) == self {
					fields[sel.Sel.Name] = true
				}
			}
		}
		return true
	})
	return fields
}

func mentions(e ast.Expr, self, field string) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == field && rootName(sel.X) == self {
			found = true
		}
		return true
	})
	return found
}

func TestDocs_SentinelErrorsSayWhatToDo(t *testing.T) {
	for _, p := range packages(t) {
		eachPackageVar(p, func(spec *ast.ValueSpec, doc string, name *ast.Ident) {
			if strings.HasPrefix(name.Name, "Err") && doc == "" {
				t.Errorf("%s: %s has no comment", at(t, name), name.Name)
			}
		})
	}
}

func eachPackageVar(p pkg, do func(spec *ast.ValueSpec, doc string, name *ast.Ident)) {
	for _, f := range p.Files {
		for _, d := range f.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok || gen.Tok != token.VAR {
				continue
			}
			for _, s := range gen.Specs {
				spec := s.(*ast.ValueSpec)
				doc := spec.Doc.Text() + spec.Comment.Text()
				if len(gen.Specs) == 1 {
					doc += gen.Doc.Text()
				}
				for _, name := range spec.Names {
					do(spec, doc, name)
				}
			}
		}
	}
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// rootName is the variable at the left end of a.b[c].d.
func rootName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return rootName(e.X)
	case *ast.IndexExpr:
		return rootName(e.X)
	case *ast.StarExpr:
		return rootName(e.X)
	case *ast.ParenExpr:
		return rootName(e.X)
	}
	return ""
}
