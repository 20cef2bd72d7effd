package fs

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestRequired(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]literal{
		`func`:              {"func", false},
		`func \w+ error`:    {" error", false},
		`(abc)+(de){2,}`:    {"abc", false},
		`abc|abd`:           {"ab", false}, // the parser factors out the common prefix
		`abc|def`:           {"", false},
		"a\ufffdb":          {"", false},
		`(abc)?x*`:          {"", false},
		`[`:                 {"", false},
		`(?i)FUNC Marshal`:  {"func mar", true},
		`(?i)ask`:           {"a", true},
		`(?i)straße`:        {"tra", true},
		`(?i:ab)cdef`:       {"cdef", false},
		`^\s*return nil$`:   {"return nil", false},
		`(?i)sk`:            {"", true},
		`é\.`:               {"é.", false},
		`\bword\b`:          {"word", false},
		`(?P<name>x{3}y)zz`: {"zz", false},
	} {
		assert.Equal(t, want, requiredLiteral(pattern), pattern)
	}
}

func TestLower(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "az[é\xff0 az", string(lowerASCII(make([]byte, 20), []byte("AZ[é\xff0 az"))))
}
