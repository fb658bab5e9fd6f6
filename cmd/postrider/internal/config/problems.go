package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Path is where: databases[0].retention.
	Path string
	// Text is what, without any secret.
	Text string
}

func (p Problem) String() string {
	if p.Path == "" {
		return p.Text
	}
	return p.Path + ": " + p.Text
}

// Problems are all the things that are wrong, in the order of the file's
// fields. As an error it means exit code 2.
type Problems struct {
	// Source is the file's name, or "" without a file.
	Source string
	List   []Problem
	unread map[string]bool
}

// Error is one line for one problem, and one more for each where there are
// several.
func (p *Problems) Error() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source + ": ")
	}
	if len(p.List) == 1 {
		b.WriteString(p.List[0].String())
		return b.String()
	}
	fmt.Fprintf(&b, "%d problems", len(p.List))
	for _, problem := range p.List {
		b.WriteString("\n  " + problem.String())
	}
	return b.String()
}

// Add notes a problem that was found later: in what an adapter says of its
// options.
func (p *Problems) Add(path, text string) { p.List = append(p.List, Problem{path, text}) }

// Err returns p in the file's order, or nil if nothing is wrong.
func (p *Problems) Err() error { return p.err() }

// add notes a problem, unless the value at the path could not even be read:
// what then follows from its default says nothing new.
func (p *Problems) add(path, format string, args ...any) {
	if !p.unread[path] {
		p.List = append(p.List, Problem{path, fmt.Sprintf(format, args...)})
	}
}

// addUnread notes that the value at the path could not be read.
func (p *Problems) addUnread(path, format string, args ...any) {
	p.add(path, format, args...)
	if p.unread == nil {
		p.unread = map[string]bool{}
	}
	p.unread[path] = true
}

// err returns p in the file's order, or nil if nothing is wrong.
func (p *Problems) err() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b Problem) int { return cmp.Compare(rank(a.Path), rank(b.Path)) })
	return p
}

// rank orders problems by section, in the order in which Config lists them, and
// in a section by item.
func rank(path string) int {
	for i, section := range sections() {
		if rest, ok := strings.CutPrefix(path, section); ok {
			item, _, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
			n, _ := strconv.Atoi(item)
			return i<<32 + n
		}
	}
	return -1
}
