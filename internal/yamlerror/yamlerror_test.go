package yamlerror_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/orch-dev/orch/internal/yamlerror"
)

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: x\nzzz: 1":         `line 2: unknown key "zzz"`,
		"n: [1]":               "line 1: a list is not of the expected kind",
		"n: five":              "line 1: a text is not of the expected kind",
		"a: {b: c}\nn: true":   "line 1: an object is not of the expected kind; line 2: true or false is not of the expected kind",
		"a: {":                 "line 1: did not find expected node content",
		"- 1":                  "line 1: a list is not of the expected kind",
		"n: 2026-11-29":        "line 1: a time is not of the expected kind",
		"n: !!binary aGVsbG8=": "line 1: a value is not of the expected kind",
	} {
		var into struct {
			A string `yaml:"a"`
			N int    `yaml:"n"`
		}
		dec := yaml.NewDecoder(strings.NewReader(text))
		dec.KnownFields(true)
		err := dec.Decode(&into)
		require.Error(t, err, text)
		assert.Equal(t, want, yamlerror.Text(err), text)
	}
}
