package spell_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/internal/spell"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"submit", "list", "get", "retry", "resume", "FILE_READ"}
	for word, want := range map[string]string{
		"sumbit":                 "submit",
		"lst":                    "list",
		"gte":                    "get",
		"resum":                  "resume",
		"file_raed":              "FILE_READ",
		"xyzzy":                  "",
		"":                       "",
		strings.Repeat("a", 100): "",
	} {
		assert.Equal(t, want, spell.Nearest(word, words), "%q", word)
	}
	assert.Equal(t, "did you mean list?", spell.Hint("lisst", words))
	assert.Empty(t, spell.Hint("zzzzzz", words))
}
