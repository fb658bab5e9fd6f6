package config

import (
	"reflect"

	"github.com/knadh/koanf/parsers/yaml"
)

// YAML spells the configuration, with every default, as a file that can be read
// again. Show only what [Config.Redacted] returned.
func (c *Config) YAML() ([]byte, error) {
	tree, _ := treeOf(reflect.ValueOf(c).Elem()).(map[string]any)
	return yaml.Parser().Marshal(tree)
}

// treeOf is the reverse of decode. Empty texts, lists and maps are left out.
func treeOf(v reflect.Value) any {
	switch {
	case v.Type() == reflect.TypeFor[Duration]() || v.Type() == reflect.TypeFor[Size]():
		return v.Interface().(interface{ String() string }).String()
	case v.Kind() == reflect.Struct:
		tree := map[string]any{}
		for _, f := range fieldsOf(v.Type()) {
			if f.later != nil && f.later[0] == "*" {
				continue
			}
			if slot := v.Field(f.index); !isEmpty(slot) {
				tree[f.name] = treeOf(slot)
			}
		}
		return tree
	case v.Kind() == reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = treeOf(v.Index(i))
		}
		return list
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() != reflect.Interface:
		tree := map[string]any{}
		for name, item := range v.Seq2() {
			tree[name.String()] = treeOf(item)
		}
		return tree
	}
	return v.Interface()
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Struct:
		return v.IsZero()
	}
	return false
}
