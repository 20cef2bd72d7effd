// Package recipes follows the recipes of CONTRIBUTING.md literally: it writes the files, makes the edits and runs the commands
// that the page shows, on a copy of the module.
package recipes_test

import (
	"encoding/json"
	"errors"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slow recipes compile much of the module. They are followed where ORCH_RECIPES=all asks for it, as make nightly does.
func slow() []string { return []string{"Add an event", "Add a method to the API", "Add a face"} }

// Every recipe builds and passes the tests that it names. When it does not, the page is wrong, not this test.
func TestRecipes(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	root, err = filepath.EvalSymlinks(root)
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	all, err := parse(string(page))
	require.NoError(t, err)
	var titles []string
	for _, r := range all { //nolint:paralleltest // each runs the compiler, which takes all cores
		titles = append(titles, r.title)
		t.Run(r.title, func(t *testing.T) {
			if slices.Contains(slow(), r.title) && os.Getenv("ORCH_RECIPES") != "all" {
				t.Skip("it compiles much of the module: ORCH_RECIPES=all, or make recipes")
			}
			k := newKitchen(t, root)
			for _, s := range r.steps {
				k.follow(t, s)
			}
		})
	}
	assert.Equal(t, []string{
		"Add a tool", "Add an event", "Add a method to the API", "Add a face", "Add a storage backend", "Add an agent protocol",
	}, titles)
}

// kitchen is a copy of the module in which a recipe is followed. Where it can, the compiler reads the module itself with the changed files
// in place of those that they replace, so that what does not change is compiled once for all; tests and generators run in the copy.
type kitchen struct {
	root, copy string
	// replaced are the changed files, from their path in the module to that in the copy.
	replaced map[string]string
	overlay  string
	runner   string
}

func newKitchen(t *testing.T, root string) *kitchen {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	k := &kitchen{
		root: root, copy: filepath.Join(dir, "module"), replaced: map[string]string{},
		overlay: filepath.Join(dir, "overlay.json"), runner: filepath.Join(dir, "run"),
	}
	require.NoError(t, copyModule(k.copy, root))
	script := "#!/bin/sh\ncd \"$RECIPE_COPY/${PWD#\"$RECIPE_ROOT\"}\" && exec \"$@\"\n"
	require.NoError(t, os.WriteFile(k.runner, []byte(script), 0o700))
	return k
}

// copyModule copies the files of the module, and not what was built or stored in its folder. Everybody may read the copy: some tests
// give up their rights.
func copyModule(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "node_modules", "Working"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

func (k *kitchen) follow(t *testing.T, s step) {
	t.Helper()
	path := filepath.Join(k.copy, filepath.FromSlash(s.file))
	switch {
	case s.commands != "":
		k.run(t, s.commands)
	case s.content != "":
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist, "%s is there already", s.file)
		formatted, err := format.Source([]byte(s.content))
		require.NoError(t, err, s.file)
		require.Equal(t, string(formatted), s.content, "%s is not as gofmt has it", s.file)
		k.write(t, s.file, s.content)
	default:
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		changed, err := apply(string(text), s.edits)
		require.NoError(t, err, s.file)
		k.write(t, s.file, changed)
	}
}

func (k *kitchen) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(k.copy, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	k.replaced[filepath.Join(k.root, filepath.FromSlash(name))] = path
}

// run runs commands of the shell at the root of the module, and fails the test with what they say when one of them fails.
func (k *kitchen) run(t *testing.T, commands string) {
	t.Helper()
	overlay, err := json.Marshal(map[string]any{"Replace": k.replaced})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(k.overlay, overlay, 0o600))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-ec", commands)
	cmd.Dir = k.copy
	cmd.Env = append(os.Environ(), "RECIPE_ROOT="+k.root, "RECIPE_COPY="+k.copy)
	if !k.namesNewFolder(commands) {
		cmd.Dir = k.root
		cmd.Env = append(cmd.Env, strings.TrimSpace("GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+k.overlay+" -exec="+k.runner+" -count=1"))
	}
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%s\n%s", commands, out)
	}
	require.NoError(t, err)
	t.Logf("%s%s", commands, out)
}

// namesNewFolder reports whether commands name a folder that only the copy has: the go command runs no test of a package whose folder
// is not there.
func (k *kitchen) namesNewFolder(commands string) bool {
	for _, name := range folder.FindAllString(commands, -1) {
		if _, err := os.Stat(filepath.Join(k.root, filepath.FromSlash(name))); err != nil {
			return true
		}
	}
	return false
}

// folder matches a package in a command, without the "/..." that stands for those below.
var folder = regexp.MustCompile(`\./\w+(?:/\w+)*`)

// A page that cannot be followed is told as such, and not passed over.
func TestParse(t *testing.T) {
	t.Parallel()
	const tool = "# Page\n\n## Recipes\n\n### Add\n\n1. Make it:\n\n   ```go\n   // a/b.go\n   package a\n\n   func f() {\n   \tg()\n   }\n   ```\n" +
		"2. Edit:\n\n   ```diff\n   --- c.go\n    x\n   -y\n   +z\n   @@\n    end\n   +more\n   ```\n3. Try:\n\n   ```sh\n   go test ./a\n   ```\n\n## After\n\n### No recipe\n"
	all, err := parse(tool)
	require.NoError(t, err)
	assert.Equal(t, []recipe{{title: "Add", steps: []step{
		{file: "a/b.go", content: "package a\n\nfunc f() {\n\tg()\n}\n"},
		{file: "c.go", edits: []edit{{"x\ny\n", "x\nz\n"}, {"end\n", "end\nmore\n"}}},
		{commands: "go test ./a\n"},
	}}}, all)
	for name, bad := range map[string]string{
		"no section":      "# Page\n",
		"no file":         "\n## Recipes\n\n### A\n\n```go\npackage a\n```\n",
		"no file to edit": "\n## Recipes\n\n### A\n\n```diff\n+x\n```\n",
		"no place":        "\n## Recipes\n\n### A\n\n```diff\n--- c.go\n+x\n```\n",
		"no change":       "\n## Recipes\n\n### A\n\n```diff\n--- c.go\n x\n```\n",
		"another line":    "\n## Recipes\n\n### A\n\n```diff\n--- c.go\n-x\ny\n```\n",
		"unknown":         "\n## Recipes\n\n### A\n\n```yaml\na: b\n```\n",
	} {
		_, err := parse(bad)
		require.Error(t, err, name)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	got, err := apply("a\nb\nc\n", []edit{{"a\n", "x\na\n"}, {"c\n", "d\n"}})
	require.NoError(t, err)
	assert.Equal(t, "x\na\nb\nd\n", got)
	for name, e := range map[string]edit{"none": {"z\n", "y\n"}, "a part of a line": {"b\n", "y\n"}, "twice": {"a\n", "y\n"}} {
		_, err := apply("a\nab\na\n", []edit{e})
		require.Error(t, err, name)
	}
}
