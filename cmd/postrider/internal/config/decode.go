package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// decode fills the struct, slice, map or value at target from a tree of
// map[string]any, []any and plain values. It goes on after a problem, so that
// all of them are found at once; what could not be read keeps its default.
func decode(value any, target reflect.Value, path string, problems *Problems) {
	switch target.Kind() {
	case reflect.Struct:
		decodeStruct(value, target, path, problems)
	case reflect.Slice:
		decodeSlice(value, target, path, problems)
	case reflect.Map:
		decodeMap(value, target, path, problems)
	default:
		if problem := decodeScalar(value, target); problem != "" {
			problems.addUnread(path, "%s", problem)
		}
	}
}

func decodeStruct(value any, target reflect.Value, path string, problems *Problems) {
	fields := fieldsOf(target.Type())
	setDefaults(fields, target)
	if value == nil {
		return
	}
	tree, ok := value.(map[string]any)
	if !ok {
		problems.addUnread(path, "%s instead of fields", kindOf(value))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.name == name }) {
			problems.add(join(path, printable(name)), "unknown field%s", suggest(name, fields))
		}
	}
	for _, f := range fields {
		item, given := tree[f.name]
		if !given || item == nil { // "retention:" without a value is its default
			continue
		}
		at, slot := join(path, f.name), target.Field(f.index)
		before := len(problems.List)
		decode(item, slot, at, problems)
		if len(problems.List) == before {
			checkTags(f, slot, at, problems)
		}
	}
}

// checkTags checks what a field's tags say about its value.
func checkTags(f field, v reflect.Value, path string, problems *Problems) {
	text := ""
	if v.Kind() == reflect.String {
		text = v.String()
	}
	if f.enum != nil && !slices.Contains(f.enum, text) && text != f.byDefault {
		problems.add(path, "must be %s", alternatives(f.enum))
		return
	}
	switch {
	case slices.Contains(f.later, "*") && !f.isDefault(v):
		problems.add(path, "not supported by this version")
	case text != "" && slices.Contains(f.later, text):
		problems.add(path, "%s is not supported by this version", text)
	}
}

func decodeSlice(value any, target reflect.Value, path string, problems *Problems) {
	list, ok := value.([]any)
	if !ok {
		problems.addUnread(path, "%s instead of a list", kindOf(value))
		return
	}
	out := reflect.MakeSlice(target.Type(), len(list), len(list))
	for i, item := range list {
		decode(item, out.Index(i), index(path, i), problems)
	}
	target.Set(out)
}

// decodeMap reads maps of free names: options, headers, aliases.
func decodeMap(value any, target reflect.Value, path string, problems *Problems) {
	tree, ok := value.(map[string]any)
	if !ok {
		problems.addUnread(path, "%s instead of fields", kindOf(value))
		return
	}
	out := reflect.MakeMap(target.Type())
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		item, slot := tree[name], reflect.New(target.Type().Elem()).Elem()
		if slot.Kind() == reflect.Interface {
			slot.Set(reflect.ValueOf(plain(item)))
		} else {
			decode(item, slot, join(path, printable(name)), problems)
		}
		out.SetMapIndex(reflect.ValueOf(name), slot)
	}
	target.Set(out)
}

// plain turns the texts of variables back into texts, for maps of any values.
func plain(value any) any {
	switch v := value.(type) {
	case Soft:
		return v.Text
	case map[string]any:
		for name := range v {
			v[name] = plain(v[name])
		}
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case nil:
		return ""
	}
	return value
}

// decodeScalar reads one value and returns what is wrong with it, or "".
func decodeScalar(value any, target reflect.Value) string {
	soft, isSoft := value.(Soft)
	text, isText := value.(string)
	if isSoft {
		text = soft.Text
	}
	var err error
	switch target.Interface().(type) {
	case Duration, Size:
		if n, ok := value.(int); ok && target.Type() == reflect.TypeFor[Size]() {
			text = strconv.Itoa(n)
		} else if !isText && !isSoft {
			return fmt.Sprintf("%s instead of %s", kindOf(value), want(target))
		}
		err = setText(target, text)
	case string:
		if !isText && !isSoft {
			return kindOf(value) + " instead of a text (put it in quotes)"
		}
		target.SetString(text)
	case bool:
		if b, ok := value.(bool); ok {
			target.SetBool(b)
		} else if err = setText(target, text); !isSoft {
			return kindOf(value) + " instead of true or false"
		}
	case int:
		if n, ok := value.(int); ok {
			target.SetInt(int64(n))
		} else if err = setText(target, text); !isSoft {
			return kindOf(value) + " instead of a whole number"
		}
		if err == nil && target.Int() < 0 {
			return "negative number"
		}
	default:
		panic("config: field of type " + target.Type().String())
	}
	switch {
	case err == nil:
		return ""
	case isSoft:
		return fmt.Sprintf("the value of %s is not %s", soft.From, want(target))
	}
	return err.Error()
}

// setText reads a value from its text; "" is the zero value.
func setText(target reflect.Value, text string) (err error) {
	var n int
	var b bool
	var d Duration
	var s Size
	switch {
	case text == "" && target.Kind() != reflect.String:
		target.SetZero()
		return nil
	case target.Type() == reflect.TypeFor[Duration]():
		if d, err = ParseDuration(text); err == nil {
			target.SetInt(int64(d))
		}
	case target.Type() == reflect.TypeFor[Size]():
		if s, err = ParseSize(text); err == nil {
			target.SetInt(int64(s))
		}
	case target.Kind() == reflect.Int:
		if n, err = strconv.Atoi(text); err == nil {
			target.SetInt(int64(n))
		}
	case target.Kind() == reflect.Bool:
		if b, err = strconv.ParseBool(text); err == nil {
			target.SetBool(b)
		}
	case target.Kind() == reflect.String:
		target.SetString(text)
	}
	return err
}

func want(target reflect.Value) string {
	switch target.Interface().(type) {
	case Duration:
		return "a duration (write 500ms, 10s, 24h or 7d)"
	case Size:
		return "a size (write 65536, 512KiB or 64MiB)"
	case bool:
		return "true or false"
	case int:
		return "a whole number"
	}
	return "a text"
}

// kindOf names what a value is, without showing it.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string, Soft:
		return "a text"
	case bool:
		return "true or false"
	case int, int64, uint64:
		return "a number"
	case float64:
		return "a fraction"
	case []any:
		return "a list"
	case map[string]any:
		return "a group of fields"
	}
	return "a value of another kind"
}

func alternatives(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	last := len(values) - 1
	return strings.Join(values[:last], ", ") + " or " + values[last]
}
