package lint

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const longest = 400 // lines: past that there is usually a second concept in a file

func TestFiles_AreShort(t *testing.T) {
	dir := repository(t)
	for _, name := range tracked(t) {
		if ext := filepath.Ext(name); ext != ".go" && ext != ".sh" && ext != ".sql" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if os.IsNotExist(err) {
			continue // deleted, not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte("\n")); n > longest {
			t.Errorf("%s has %d lines, at most %d", name, n, longest)
		}
	}
}

// The repository knows no machine and no registry: paths and hosts of the one
// it was written on mean nothing elsewhere. The patterns are put together so
// that this file does not break its own law.
func TestFiles_NameNoMachineAndNoRegistry(t *testing.T) {
	forbidden := regexp.MustCompile(strings.Join([]string{
		`(^|[\s"'(=:` + "`" + `])/(work|root|home/[a-z]+)/[a-z]`,
		`proxy\.` + `golang\.org`, `sum\.` + `golang\.org`, `registry\.` + `npmjs`, `deb\.` + `debian\.org`, `files\.` + `pythonhosted`,
	}, "|"))
	dir := repository(t)
	for _, name := range tracked(t) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			continue // gone, or no text
		}
		for i, line := range strings.Split(string(b), "\n") {
			if m := forbidden.FindString(line); m != "" {
				t.Errorf("%s:%d: %q", name, i+1, m)
			}
		}
	}
}

func TestFiles_OpenWorkHasAnIssue(t *testing.T) {
	open := regexp.MustCompile(`\b(` + `TO` + `DO|FIX` + `ME|XX` + `X)\b(\(#\d+\))?`)
	for _, p := range packages(t) {
		for _, f := range p.Files {
			for _, group := range f.Comments {
				for _, c := range group.List {
					if m := open.FindStringSubmatch(c.Text); m != nil && m[2] == "" {
						t.Errorf("%s: %s without an issue's number", at(t, c), m[1])
					}
				}
			}
		}
	}
}

func TestFiles_ChangelogHasUnreleased(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(repository(t), "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("\n## [Unreleased]\n")) {
		t.Error("CHANGELOG.md has no section [Unreleased]")
	}
}
