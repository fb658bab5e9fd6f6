package config

import (
	"strconv"
	"strings"
)

// mergeFields lays the environment's tree over the file's. Where the file has a
// list, a name in the environment's path is the index of an item:
// POSTRIDER_DATABASES__0__RETENTION. The index behind the last item adds one.
func mergeFields(from, into map[string]any, path string, problems *Problems) {
	for name, value := range from {
		at := join(path, printable(name))
		group, isGroup := value.(map[string]any)
		if !isGroup {
			into[name] = value
			continue
		}
		switch old := into[name].(type) {
		case map[string]any:
			mergeFields(group, old, at, problems)
		case []any:
			into[name] = mergeItems(group, old, at, problems)
		default:
			if isIndexed(group) {
				into[name] = mergeItems(group, nil, at, problems)
			} else {
				into[name] = group
			}
		}
	}
}

func mergeItems(from map[string]any, list []any, path string, problems *Problems) []any {
	left := len(from)
	for i := 0; left > 0 && i <= len(list); i++ {
		value, ok := from[strconv.Itoa(i)]
		if !ok {
			continue
		}
		left--
		if i == len(list) {
			list = append(list, map[string]any{})
		}
		group, isGroup := value.(map[string]any)
		old, wasGroup := list[i].(map[string]any)
		if isGroup && wasGroup {
			mergeFields(group, old, index(path, i), problems)
		} else {
			list[i] = value
		}
	}
	if left > 0 {
		problems.add(path, "a variable POSTRIDER_%s__... names no item of this list of %d (write its index, from 0)",
			strings.ToUpper(path), len(list))
	}
	return list
}

// isIndexed reports whether a group of the environment's is a list.
func isIndexed(group map[string]any) bool {
	_, ok := group["0"]
	return ok
}
