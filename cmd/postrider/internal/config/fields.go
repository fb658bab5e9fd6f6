package config

import (
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// field is a field of a configuration struct with what its tags say.
type field struct {
	index       int
	name        string
	byDefault   string
	enum, later []string
	secret, url bool
	doc         string
}

// fieldsOf reads the tags of a struct, in the order of its fields.
func fieldsOf(t reflect.Type) []field {
	fields := make([]field, t.NumField())
	for i := range fields {
		tag := t.Field(i).Tag
		fields[i] = field{
			index:     i,
			name:      tag.Get("yaml"),
			byDefault: tag.Get("default"),
			enum:      list(tag.Get("enum")),
			later:     list(tag.Get("later")),
			secret:    tag.Get("secret") == "true",
			url:       tag.Get("url") == "true",
			doc:       tag.Get("doc"),
		}
	}
	return fields
}

func list(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, ",")
}

// setDefaults gives every field of a struct the value that its tag says.
func setDefaults(fields []field, target reflect.Value) {
	for _, f := range fields {
		slot := target.Field(f.index)
		switch {
		case slot.Kind() == reflect.Struct:
			setDefaults(fieldsOf(slot.Type()), slot)
		case f.byDefault != "":
			if err := setText(slot, f.byDefault); err != nil {
				panic("config: default of " + f.name + ": " + err.Error()) // a test reads them all
			}
		}
	}
}

// isDefault reports whether a value is the one that the field's tag says.
func (f field) isDefault(v reflect.Value) bool {
	byDefault := reflect.New(v.Type()).Elem()
	return setText(byDefault, f.byDefault) == nil && reflect.DeepEqual(v.Interface(), byDefault.Interface())
}

// sections are the top-level fields, in order.
func sections() []string {
	var names []string
	for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
		names = append(names, f.name)
	}
	return names
}

// suggest names the field that was probably meant.
func suggest(name string, fields []field) string {
	best, distance := "", 3
	for _, f := range fields {
		if d := edits(strings.ToLower(name), f.name); d < distance {
			best, distance = f.name, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// edits is the Levenshtein distance, cut short for names that nobody mistypes.
func edits(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// printable makes a name from the file safe for one line of a terminal, and
// cuts one that is surely no name, since it may hold anything.
func printable(name string) string {
	clean := strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '?'
		}
		return r
	}, name)
	if len(clean) > 40 || strings.Contains(clean, "://") {
		return "(a long name)"
	}
	return clean
}

// defaults returns a section with the values that its tags say.
func defaults[T any]() T {
	var section T
	v := reflect.ValueOf(&section).Elem()
	setDefaults(fieldsOf(v.Type()), v)
	return section
}
