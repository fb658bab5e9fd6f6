package config

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema returns the JSON Schema of the configuration, for editors. It is made
// from the same struct as everything else.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[Config]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "postrider.yaml"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic(err) // only maps, texts and numbers
	}
	return append(text, '\n')
}

// variable is what a text with ${VAR} in it looks like; any field may be one.
const variablePattern = `\$\{`

func schemaOf(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|^[0-9]+d$|` + variablePattern}
	case t == reflect.TypeFor[Size]():
		return map[string]any{
			"type": []any{"integer", "string"}, "minimum": 0,
			"pattern": `^[0-9]+ *([kMGT]i?B|KiB|B)?$|` + variablePattern,
		}
	case t.Kind() == reflect.Struct:
		properties := map[string]any{}
		for _, f := range fieldsOf(t) {
			properties[f.name] = fieldSchema(f, t.Field(f.index).Type)
		}
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": []any{"array", "null"}, "items": schemaOf(t.Elem())}
	case t.Kind() == reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": schemaOf(t.Elem())}
	case t.Kind() == reflect.Int:
		return map[string]any{"type": []any{"integer", "string"}, "minimum": 0, "pattern": variablePattern}
	case t.Kind() == reflect.Bool:
		return map[string]any{"type": []any{"boolean", "string"}, "pattern": variablePattern}
	case t.Kind() == reflect.String:
		return map[string]any{"type": "string"}
	}
	return map[string]any{} // an option's value: anything
}

func fieldSchema(f field, t reflect.Type) map[string]any {
	s := schemaOf(t)
	s["description"] = f.doc
	if f.later != nil && t.Kind() != reflect.Bool {
		s["description"] = f.doc + " Not supported by this version: " + strings.ReplaceAll(strings.Join(f.later, ", "), "*", "any value") + "."
	}
	if f.enum != nil {
		values := make([]any, len(f.enum))
		for i, v := range f.enum {
			values[i] = v
		}
		delete(s, "type")
		s["anyOf"] = []any{map[string]any{"enum": values}, map[string]any{"type": "string", "pattern": variablePattern}}
	}
	if f.byDefault != "" {
		s["default"] = typedDefault(f, t)
	}
	return s
}

// typedDefault is a default as the schema wants it: numbers and truth values
// are not texts there.
func typedDefault(f field, t reflect.Type) any {
	v := reflect.New(t).Elem()
	if err := setText(v, f.byDefault); err == nil && (t.Kind() == reflect.Bool || t == reflect.TypeFor[int]()) {
		return v.Interface()
	}
	return f.byDefault
}
