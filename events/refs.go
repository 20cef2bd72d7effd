package events

import (
	"iter"
	"reflect"
)

// Refs yields the references of the commit's events to large values in the blob store.
func (c *Commit) Refs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range c.Events {
			if !refsIn(reflect.ValueOf(e.Data), yield) {
				return
			}
		}
	}
}

// refsIn yields the references of all values inside v. It returns false when yield does.
func refsIn(v reflect.Value, yield func(string) bool) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || refsIn(v.Elem(), yield)
	case reflect.Slice:
		for i := range v.Len() {
			if !refsIn(v.Index(i), yield) {
				return false
			}
		}
	case reflect.Struct:
		if value, ok := reflect.TypeAssert[Value](v); ok {
			return value.Ref() == "" || yield(value.Ref())
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !refsIn(v.Field(i), yield) {
				return false
			}
		}
	default: // other kinds contain no Value
	}
	return true
}
