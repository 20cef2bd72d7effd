package archtest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/test/archtest"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	root := os.DirFS("../..")
	files, err := archtest.Load(root)
	require.NoError(t, err)
	require.NotEmpty(t, files)

	for name, findings := range map[string][]string{
		"imports": archtest.CheckImports(files, archtest.Orch()),
		"table":   archtest.CheckTable(files, archtest.Orch()),
		"rooms":   archtest.CheckRooms(files, archtest.Orch()),
		"names":   archtest.CheckNames(files),
		"style":   archtest.CheckStyle(files),
		"docs":    archtest.CheckDocs(files),
		"types":   archtest.CheckTypes(files),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, finding := range findings {
				t.Error(finding)
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	findings, err := archtest.CheckRequirements(os.DirFS("../.."))
	require.NoError(t, err)
	for _, finding := range findings {
		t.Error(finding)
	}
}

func TestModulePath(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(mod), "module "+archtest.Module+"\n"))
}

func TestEveryLibraryIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/dependencies.md")
	require.NoError(t, err)
	for _, library := range archtest.Orch().Libraries {
		assert.Contains(t, string(page), library.Path, "docs/reference/dependencies.md has no line for it")
	}
}
