package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestScenarios_Coverage prints which production faults have a test, by the ids
// in the tests' names. It fails for none: it is the list to work from.
func TestScenarios_Coverage(t *testing.T) {
	list, err := os.ReadFile("testdata/scenarios.txt")
	if err != nil {
		t.Fatal(err)
	}
	// A test's name, or text that begins with an id: a subtest, a suite's case.
	named := regexp.MustCompile(`func (Test\w*S\d{2,3}\w*)\(|"(S\d{2,3}[ :_,/"](?:S\d{2,3}[ :_,/"])*)`)
	id := regexp.MustCompile(`S\d{2,3}`)
	dir, tests := repository(t), map[string][]string{}
	for _, name := range tracked(t) {
		if !strings.HasSuffix(name, ".go") || (!strings.HasSuffix(name, "_test.go") && !suite(filepath.ToSlash(filepath.Dir(name)))) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // deleted, not committed yet
		}
		for _, m := range named.FindAllStringSubmatch(string(b), -1) {
			for _, id := range id.FindAllString(m[1]+m[2], -1) {
				if n := len(tests[id]); n == 0 || tests[id][n-1] != name {
					tests[id] = append(tests[id], name)
				}
			}
		}
	}
	covered, total := 0, 0
	for line := range strings.Lines(string(list)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for id := range strings.FieldsSeq(line) {
			total++
			if len(tests[id]) > 0 {
				covered++
			}
			t.Logf("%-5s %s", id, strings.Join(tests[id], ", "))
		}
	}
	t.Logf("%d of %d scenarios have a test", covered, total)
}
