package main

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// values are the values that the names of a dialogue, such as $task, stand for.
type values map[string]any

// expand replaces the names in a text by their values.
func (v values) expand(text string) string {
	for name, value := range v {
		if s, ok := value.(string); ok {
			text = strings.ReplaceAll(text, "$"+name, s)
		}
	}
	return text
}

// absent is the pattern of a member that an object does not have.
const absent = "$absent"

// match compares a value with a pattern, and returns the first difference, or "". A name matches any value, and the same value from
// then on. An object may have further members, as later versions of the protocol have.
func (v values) match(want, have any, at string) string {
	switch w := want.(type) {
	case string:
		name, isName := strings.CutPrefix(w, "$")
		known, bound := v[name]
		switch {
		case isName && !bound:
			v[name] = have
			return ""
		case isName:
			return differs(known, have, at)
		}
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return differs(want, have, at)
		}
		return v.matchObject(w, object, at)
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(w) {
			return differs(want, have, at)
		}
		for i := range w {
			if problem := v.match(w[i], list[i], at+"."+strconv.Itoa(i)); problem != "" {
				return problem
			}
		}
		return ""
	}
	return differs(want, have, at)
}

func (v values) matchObject(want, have map[string]any, at string) string {
	for name, pattern := range want {
		value, has := have[name]
		switch {
		case pattern == absent && has:
			return at + "." + name + " is there"
		case pattern == absent:
		case !has:
			return at + "." + name + " is missing"
		default:
			if problem := v.match(pattern, value, at+"."+name); problem != "" {
				return problem
			}
		}
	}
	return ""
}

func differs(want, have any, at string) string {
	if reflect.DeepEqual(want, have) {
		return ""
	}
	return fmt.Sprintf("%s is %v instead of %v", at, have, want)
}
