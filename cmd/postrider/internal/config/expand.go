package config

import (
	"maps"
	"slices"
	"strings"
)

// Soft is a text that came from a variable: of the environment, of a ${VAR} in
// the file, or a flag. It may be read as a number or as true and false, where a
// text of the file itself may not, and it is never quoted in a problem, because
// a wrong variable may well hold a password.
//
// Its fields are exported because koanf copies values by reflection.
type Soft struct {
	Text string
	// From says where it came from, for problems: ${VAR}.
	From string
}

// expand replaces ${VAR} and ${VAR:-default} in every text of the tree.
// $${ stands for ${ itself.
func expand(value any, path string, lookup func(string) (string, bool), problems *Problems) any {
	switch v := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = expand(v[name], join(path, name), lookup, problems)
		}
	case []any:
		for i, item := range v {
			v[i] = expand(item, index(path, i), lookup, problems)
		}
	case string:
		return expandText(v, path, lookup, problems)
	}
	return value
}

func expandText(text, path string, lookup func(string) (string, bool), problems *Problems) any {
	var out strings.Builder
	var from string
	for rest := text; ; {
		before, after, found := strings.Cut(rest, "${")
		if escaped, ok := strings.CutSuffix(before, "$"); ok && found {
			out.WriteString(escaped + "${")
			rest = after
			continue
		}
		out.WriteString(before)
		if !found {
			break
		}
		inside, tail, closed := strings.Cut(after, "}")
		if !closed {
			problems.addUnread(path, "${ without }")
			return nil // takes the default, so that no second problem follows
		}
		name, fallback, hasFallback := strings.Cut(inside, ":-")
		if !isVariable(name) {
			problems.addUnread(path, "${...} does not name a variable (write ${NAME}, or $${ for the characters themselves)")
			return nil
		}
		from = "${" + name + "}"
		value, set := lookup(name)
		switch {
		case hasFallback && value == "": // as in the shell: :- is for unset and empty
			value = fallback
		case !set:
			problems.addUnread(path, "the variable %s is not set", name)
			return nil
		}
		out.WriteString(value)
		rest = tail
	}
	if from == "" {
		return out.String()
	}
	return Soft{Text: out.String(), From: from}
}

func isVariable(name string) bool {
	for i, c := range name {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
