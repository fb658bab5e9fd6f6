package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const root = "github.com/postrider/postrider"

// pkg is what the laws need to know of a package. Test files are not in it:
// tests may import what they like.
type pkg struct {
	Dir        string
	ImportPath string
	Name       string
	Imports    []string
	Deps       []string
	GoFiles    []string
	Files      []*ast.File `json:"-"`
}

// path is the import path below the root module: "relay", "store/postgres".
func (p pkg) path() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, root), "/") }

var fset = token.NewFileSet()

// repository finds the folder of go.work. Laws look at all modules, so outside
// of the repository, in a module cache, there is nothing for them to look at.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Skip("not in the repository")
		}
		dir = parent
	}
}

func command(dir, name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=") // the laws are about the workspace, whatever the test run uses
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, errors.New(name + " " + strings.Join(args, " ") + ": " + string(exit.Stderr))
	}
	return out, err
}

// modules are the folders of all modules in go.work.
func modules(t *testing.T) []string {
	t.Helper()
	dir := repository(t)
	out, err := command(dir, "go", "work", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal(out, &work); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, use := range work.Use {
		dirs = append(dirs, filepath.Join(dir, use.DiskPath))
	}
	return dirs
}

var loaded struct {
	sync.Once
	packages []pkg
	err      error
}

// packages are those of all modules, parsed.
func packages(t *testing.T) []pkg {
	t.Helper()
	dirs := modules(t)
	loaded.Do(func() { loaded.packages, loaded.err = load(dirs) })
	if loaded.err != nil {
		t.Fatal(loaded.err)
	}
	return loaded.packages
}

func load(dirs []string) ([]pkg, error) {
	var all []pkg
	for _, dir := range dirs {
		out, err := command(dir, "go", "list", "-e", "-json=Dir,ImportPath,Name,Imports,Deps,GoFiles", "./...")
		if err != nil {
			return nil, err
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p pkg
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			for _, name := range p.GoFiles {
				f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
				if err != nil {
					return nil, err
				}
				p.Files = append(p.Files, f)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// at is where n stands, relative to the repository.
func at(t *testing.T, n ast.Node) string {
	t.Helper()
	pos := fset.Position(n.Pos())
	if rel, err := filepath.Rel(repository(t), pos.Filename); err == nil {
		pos.Filename = rel
	}
	return pos.String()
}

// tracked are the files in git, relative to the repository.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := command(repository(t), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Skipf("no list of files: %v", err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
}
