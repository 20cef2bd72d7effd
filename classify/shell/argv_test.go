package shell_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/fault"
)

// S4-060: every argument that names a file is found, whatever its form, and nothing else.
func TestReadOnlyArgsNamesTheFiles(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]shell.Operand{
		"grep|x":                   nil,
		"grep|-r|x":                {{Arg: -1, Path: "."}},
		"grep|-r|-f|w":             {{Arg: 2, Path: "w"}, {Arg: -1, Path: "."}},
		"grep|/x|a|-":              {{Arg: 1, Path: "a"}},
		"grep|-R|x|a":              {{Arg: 2, Path: "a", Follow: true}},
		"grep|-e|/x|a|--|-b":       {{Arg: 2, Path: "a"}, {Arg: 4, Path: "-b"}},
		"grep|-nf/w|a":             {{Arg: 0, Path: "/w"}, {Arg: 1, Path: "a"}},
		"grep|--file=/w|--file|v":  {{Arg: 0, Path: "/w"}, {Arg: 2, Path: "v"}},
		"grep|--exclude-from=/w|x": {{Arg: 0, Path: "/w"}},
		"grep|-5|x|a":              {{Arg: 2, Path: "a"}},
		"sed|-ne|p|a":              {{Arg: 2, Path: "a"}},
		"sed|s/a/b/|../a":          {{Arg: 1, Path: "../a"}},
		"awk|-F|/|{print}|v=/x|/a": {{Arg: 4, Path: "/a"}},
		"find":                     {{Arg: -1, Path: "."}},
		"find|-L|a|-newer|/b":      {{Arg: 1, Path: "a", Follow: true}, {Arg: 3, Path: "/b", Follow: true}},
		"find|a|b|-name|/c":        {{Arg: 0, Path: "a"}, {Arg: 1, Path: "b"}},
		"find|-name|*|-follow":     {{Arg: -1, Path: ".", Follow: true}},
		"diff|a|b":                 {{Arg: 0, Path: "a", Follow: true}, {Arg: 1, Path: "b", Follow: true}},
		"diff|-r|--no-dereference|a|b|-I|/x": {
			{Arg: 5, Path: "/x"}, {Arg: 2, Path: "a"}, {Arg: 3, Path: "b"},
		},
		"tr|/|..":        nil,
		"cut|-d/|-f1|a":  {{Arg: 2, Path: "a"}},
		"sort|-t|/|a|-u": {{Arg: 2, Path: "a"}},
		"uniq|-f|1|a":    {{Arg: 2, Path: "a"}},
		"ls|-":           {{Arg: 0, Path: "-"}},
		"ls|-I/x":        {{Arg: 0, Path: "/x"}},
		"du|-X|e|a":      {{Arg: 1, Path: "e"}, {Arg: 2, Path: "a"}},
		"rg|x":           {{Arg: -1, Path: "."}},
		"rg|-f=/w|a":     {{Arg: 0, Path: "/w"}, {Arg: 1, Path: "a"}},
		"rg|--files|/a":  {{Arg: 1, Path: "/a"}},
		"rg|-L|x|a":      {{Arg: 2, Path: "a", Follow: true}},
		"cat|--help":     nil,
	} {
		words := strings.Split(line, "|")
		got, err := shell.ReadOnlyArgs(words[0], words[1:])
		require.NoError(t, err, line)
		assert.Equal(t, want, got, line)
	}
}

// S4-059, A-99: an option that is not known to only read is named.
func TestReadOnlyArgsSaysWhatIsRefused(t *testing.T) {
	t.Parallel()
	_, err := shell.ReadOnlyArgs("sort", []string{"a", "-uo", "b"})
	e := fault.From(err)
	require.NotNil(t, e)
	assert.Equal(t, fault.ValidationError, e.Code)
	assert.Equal(t, "ARGUMENT_NOT_ALLOWED", e.Reason)
	assert.Equal(t, "args[1]", e.Field)
	assert.Contains(t, e.Message, "-o of sort")
	assert.Contains(t, e.Hint, "--reverse")
	_, err = shell.ReadOnlyArgs("head", []string{"-n"})
	assert.Contains(t, err.Error(), "needs a value")
	_, err = shell.ReadOnlyArgs("rm", nil)
	assert.Equal(t, fault.CommandNotAllowed, fault.CodeOf(err))
}

func FuzzReadOnlyArgs(f *testing.F) {
	for _, seed := range []string{"grep|-rn|x", "sed|-ne|p", "awk|{print}|a", "find|.|-name|x", "tail|-5f", "rg|-f=x", "diff|--label=x|a|b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "|")
		files, err := shell.ReadOnlyArgs(words[0], words[1:])
		if err != nil {
			assert.NotEmpty(t, fault.From(err).Field)
			return
		}
		for _, file := range files {
			assert.True(t, file.Arg == -1 || strings.HasSuffix(words[1:][file.Arg], file.Path), "%q does not end with %q", words, file.Path)
		}
	})
}
