// Package yamlerror describes errors of the YAML decoder in terms of the file, without names of Go types.
package yamlerror

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	unknownKey = regexp.MustCompile(`field (\S+) not found in type .*`)
	wrongKind  = regexp.MustCompile("cannot unmarshal !!(\\w+)(?: `[^`]*`)? into .*")
)

// kinds are the names of the kinds of values.
var kinds = map[string]string{
	"seq": "a list", "map": "an object", "str": "a text", "int": "a number", "float": "a number", "bool": "true or false", "timestamp": "a time",
}

// Text describes an error of package yaml in one line, without the values of the file, which may be secrets.
func Text(err error) string {
	list, ok := errors.AsType[*yaml.TypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	texts := make([]string, len(list.Errors))
	for i, text := range list.Errors {
		text = unknownKey.ReplaceAllString(text, `unknown key "$1"`)
		texts[i] = wrongKind.ReplaceAllStringFunc(text, func(s string) string {
			return cmp.Or(kinds[wrongKind.FindStringSubmatch(s)[1]], "a value") + " is not of the expected kind"
		})
	}
	return strings.Join(texts, "; ")
}
