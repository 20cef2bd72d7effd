package main

import (
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The file VERSION says which release this tree is, or which one it will be, with "-dev"; the program, the changelog and the newest release
// notes agree with it.
func TestVersion(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../VERSION")
	require.NoError(t, err)
	version := strings.TrimSuffix(string(file), "\n")
	require.Regexp(t, `^\d+\.\d+\.\d+(-dev)?$`, version, "VERSION holds one version and a line end")
	assert.Equal(t, release, version, "the constant of cmd/orch/version.go")
	assert.Equal(t, release, readVersion().Version)

	changes, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	sections := regexp.MustCompile(`(?m)^## \[(.+?)\](?: - \d{4}-\d{2}-\d{2})?$`).FindAllStringSubmatch(string(changes), -1)
	require.GreaterOrEqual(t, len(sections), 2)
	assert.Equal(t, "Unreleased", sections[0][1], "the first section of CHANGELOG.md")
	agrees(t, version, sections[1][1], "the newest version of CHANGELOG.md")

	notes, err := os.ReadDir("../../docs/releases")
	require.NoError(t, err)
	newest := ""
	for _, entry := range notes {
		name, page := strings.CutSuffix(entry.Name(), ".md")
		require.True(t, page, "docs/releases has pages alone")
		require.Regexp(t, `^\d+\.\d+\.\d+$`, name, "a page of docs/releases is named by its version")
		if newest == "" || older(t, newest, name) {
			newest = name
		}
	}
	agrees(t, version, newest, "the newest page of docs/releases")
}

// agrees checks that the newest release is that of the tree, or an older one if the tree is on its way to the next.
func agrees(t *testing.T, version, newest, what string) {
	t.Helper()
	if next, dev := strings.CutSuffix(version, "-dev"); dev {
		assert.True(t, older(t, newest, next), "%s is %s, and the tree %s", what, newest, version)
		return
	}
	assert.Equal(t, version, newest, what)
}

func older(t *testing.T, a, b string) bool {
	t.Helper()
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range x {
		m, err := strconv.Atoi(x[i])
		require.NoError(t, err)
		n, err := strconv.Atoi(y[i])
		require.NoError(t, err)
		if m != n {
			return m < n
		}
	}
	return false
}

func TestCommitOfABuild(t *testing.T) {
	t.Parallel()
	const hash = "0123456789abcdef0123456789abcdef01234567"
	for name, test := range map[string]struct {
		module   string
		settings []debug.BuildSetting
		want     string
	}{
		"no version control":           {"(devel)", nil, "unknown commit"},
		"a tag":                        {"v0.1.0", nil, "unknown commit"},
		"a clone":                      {"(devel)", []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: "false"}}, "commit 0123456789ab"},
		"a clone with changes":         {"v0.1.1-0.20261125170000-0123456789ab+dirty", []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: "true"}}, "commit 0123456789ab modified"},
		"a module without a tag":       {"v0.0.0-20261125170000-0123456789ab", nil, "commit 0123456789ab"},
		"a module after a tag":         {"v0.1.1-0.20261125170000-0123456789ab", nil, "commit 0123456789ab"},
		"a module after a pre-release": {"v0.2.0-rc.1.0.20261125170000-0123456789ab", nil, "commit 0123456789ab"},
		"a pre-release":                {"v0.2.0-rc.1", nil, "unknown commit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := versionInfo{Version: release}
			v.addBuild(&debug.BuildInfo{Main: debug.Module{Version: test.module}, Settings: test.settings})
			assert.Equal(t, release, v.Version)
			assert.Equal(t, test.want, v.commit())
		})
	}
}
