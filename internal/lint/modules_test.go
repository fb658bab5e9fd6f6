package lint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type goMod struct {
	Module  struct{ Path string }
	Go      string
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
}

func readMod(t *testing.T, dir string) goMod {
	t.Helper()
	out, err := command(dir, "go", "mod", "edit", "-json")
	if err != nil {
		t.Fatal(err)
	}
	var m goMod
	if err := json.Unmarshal(out, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestModules_OutboxRequiresNothing(t *testing.T) {
	m := readMod(t, filepath.Join(repository(t), "outbox"))
	if len(m.Require) != 0 || len(m.Replace) != 0 {
		t.Errorf("outbox/go.mod requires %v: every application that writes events would have to", m.Require)
	}
	if m.Go != "1.24" {
		t.Errorf("outbox/go.mod says go %s, promised is 1.24", m.Go)
	}
}

func TestModules_OthersSayGo126(t *testing.T) {
	for _, dir := range modules(t) {
		if m := readMod(t, dir); !strings.HasSuffix(m.Module.Path, "/outbox") && m.Go != "1.26" && !strings.HasPrefix(m.Go, "1.26.") {
			t.Errorf("%s says go %s, want 1.26", m.Module.Path, m.Go)
		}
	}
}

// Without the replace a module cannot be built alone before its siblings are
// tagged.
func TestModules_SiblingsAreReplacedByTheirFolders(t *testing.T) {
	for _, dir := range modules(t) {
		m := readMod(t, dir)
		replaced := map[string]string{}
		for _, r := range m.Replace {
			replaced[r.Old.Path] = r.New.Path
		}
		for _, r := range m.Require {
			if !under(r.Path, root) {
				continue
			}
			to, ok := replaced[r.Path]
			if !ok {
				t.Errorf("%s requires %s without a replace", m.Module.Path, r.Path)
				continue
			}
			if _, err := os.Stat(filepath.Join(dir, to, "go.mod")); err != nil {
				t.Errorf("%s replaces %s by %s, where no module is", m.Module.Path, r.Path, to)
			}
		}
	}
}
