package build_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

// inRoot writes files of the project that are older than the task.
func (p project) inRoot(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(p.Root.Name(), name), []byte(text), 0o600))
	}
	p.Since = time.Now().Add(time.Hour)
}

// The real pip installs the version that the root pins; another version needs an approval.
func TestPinnedByPip(t *testing.T) {
	t.Parallel()
	need.Long(t)
	need.Program(t, "pip")
	index := pipIndex(t, "1.0.0", "1.2.3", "2.0")
	for _, tc := range []struct{ root, lock, asked, installed, pinned string }{
		{root: "demo-kit==1.0.0", installed: "1.0.0"},
		{root: "demo-kit==1.0.0 --hash=sha256:00", asked: "1.2.3", installed: "1.2.3", pinned: "==1.0.0"},
		{root: "Demo.Kit[extra] >= 1, < 2 ; python_version > '3'", installed: "1.2.3"},
		{root: "demo-kit~=1.0", asked: "1.0.0", installed: "1.0.0"},
		{root: "demo-kit>=1", lock: "demo-kit==1.0.0", installed: "1.0.0"},
		{root: "demo-kit>=1", lock: "demo-kit==1.0.0", asked: "2.0", installed: "2.0"},
	} {
		p := newProject(t, map[string]string{"requirements.txt": "demo-kit\n"})
		p.cfg.PipIndex = index
		p.inRoot(t, map[string]string{"requirements.txt": tc.root + "\n", "requirements.lock": tc.lock})
		args := map[string]any{"package_name": "demo_kit"}
		if tc.asked != "" {
			args["version"] = tc.asked
		}
		intent, out, err := install(t, p, args)
		require.NoError(t, err, tc)
		assert.Equal(t, tc.installed, out.InstalledVersion, tc)
		assert.Equal(t, tc.pinned == "", intent.Targets[0].Known, tc)
		assert.Equal(t, tc.pinned, intent.Targets[0].Pinned, tc)
	}
}

// The same with the real npm.
func TestPinnedByNPM(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	registry := npmRegistry(t)
	const locked = `{"lockfileVersion":3,"packages":{"node_modules/demo":{"version":"1.0.0"}}}`
	for _, tc := range []struct{ root, lock, asked, installed, pinned string }{
		{root: "^1.0.0", installed: "1.2.0"},
		{root: "^1.0.0", lock: locked, installed: "1.0.0"},
		{root: "^1.0.0", lock: locked, asked: "1.2.0", installed: "1.2.0"},
		{root: "^1.0.0", asked: "2.0.0", installed: "2.0.0", pinned: "^1.0.0"},
		{root: "^1.0.0", asked: "latest", installed: "2.0.0", pinned: "^1.0.0"},
		{root: "1.x || >=2.5", asked: "2.0.0", installed: "2.0.0", pinned: "1.x || >=2.5"},
	} {
		p := newProject(t, map[string]string{"package.json": `{"dependencies":{"demo":"*"}}`})
		p.cfg.NPMRegistry = registry
		root := map[string]string{"package.json": `{"devDependencies":{"demo":"` + tc.root + `"}}`}
		if tc.lock != "" {
			root["package-lock.json"] = tc.lock
		}
		p.inRoot(t, root)
		args := map[string]any{"package_name": "demo"}
		if tc.asked != "" {
			args["version"] = tc.asked
		}
		intent, out, err := install(t, p, args)
		require.NoError(t, err, tc)
		assert.Equal(t, tc.installed, out.InstalledVersion, tc)
		assert.Equal(t, tc.pinned == "", intent.Targets[0].Known, tc)
		assert.Equal(t, tc.pinned, intent.Targets[0].Pinned, tc)
	}
}

// Each manager has its own range syntax; a range that cannot be parsed needs an approval.
func TestCoveredVersions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		manager, file, text, lock, locked string
		known, unknown                    []string
	}{
		{"cargo", "Cargo.toml", "[dependencies]\ndemo = \"1.2\"\n", "", "", []string{"1.2", "1.2.0", "1.9.0", "=1.3.0"}, []string{"2.0.0", "1.1.0", "1", "^1.9", "1.2.0-rc.1"}},
		{"cargo", "Cargo.toml", "[dependencies]\nx = { package = \"demo\", version = \"=1.2.0\" }\n", "Cargo.lock", "[[package]]\nname = \"demo\"\nversion = \"1.2.0\"\n", []string{"", "1.2.0"}, []string{"1.2.1", "1.2"}},
		{"go", "go.mod", "module x\nrequire example.com/demo v1.4.0\n", "", "", []string{"", "v1.4.0"}, []string{"v1.4.1", "latest", "abcdef0"}},
		{"pip", "requirements.txt", "demo>=1.0,!=1.5,<2\n", "", "", []string{"", "1.0", "1.9.9"}, []string{"0.9", "1.5", "1.5.0", "2", "1.9rc1", "1!1.2"}},
		{"pip", "requirements.txt", "demo==1.*\n", "", "", []string{"", "1.0", "1.9.9"}, []string{"2.0", "1.0.post1"}},
		{"pip", "requirements.txt", "demo~=1.4.2\n", "", "", []string{"", "1.4.2", "1.4.9"}, []string{"1.5.0", "1.4.1"}},
		{"pip", "requirements.txt", "demo==1.0rc1\n", "", "", []string{"", "1.0rc1"}, []string{"1.0", "1.0rc2"}},
		{"pip", "requirements.txt", "demo===1.0\n", "", "", nil, []string{"", "1.0", "2"}},
		{"pip", "pyproject.toml", "[project]\ndependencies = [\n\"demo>=1\",\n]\n[dependency-groups]\ndev = [\"demo<3\", {include-group = \"x\"}]\n", "", "", []string{"", "1", "2.5"}, []string{"0.9", "3"}},
		{"pip", "pyproject.toml", "[tool.poetry.dependencies]\ndemo = \"^1\"\n", "", "", nil, []string{"", "1", "2"}},
		{"npm", "package.json", `{"dependencies":{"demo":"^1.2.0"},"peerDependencies":{"demo":">=1.3"}}`, "", "", []string{"", "1.3.0"}, []string{"1.2.0", "2.0.0", "1.4.0-rc.1", "next", "^1.3.0"}},
		{"npm", "package.json", `{"dependencies":{"demo":"^2.0.0-rc.1"}}`, "", "", []string{"", "2.0.0-rc.2", "2.1.0"}, []string{"2.1.0-rc.1", "2.0.0-alpha"}},
		{"npm", "package.json", `{"dependencies":{"demo":"latest"}}`, "", "", []string{"", "latest"}, []string{"1.0.0"}},
		{"yarn", "package.json", `{"dependencies":{"demo":"1"}}`, "yarn.lock", "# v1\n\n\"demo@1\", demo@^1.0.0:\n  version \"1.7.0\"\n\ndemo-other@1:\n  version \"3.0.0\"\n", []string{"", "1.7.0", "1.8.0"}, []string{"2.0.0"}},
	} {
		p := newProject(t, nil)
		p.search(t, "/nowhere")
		p.inRoot(t, map[string]string{tc.file: tc.text})
		if tc.lock != "" {
			p.inRoot(t, map[string]string{tc.lock: tc.locked})
		}
		name := "demo"
		if tc.manager == "go" {
			name = "example.com/demo/sub"
		}
		judge := func(version string) tools.Target {
			args := map[string]any{"package_name": name, "package_manager": tc.manager}
			if version != "" {
				args["version"] = version
			}
			intent, _, err := install(t, p, args)
			require.Len(t, intent.Targets, 1, "%s %s: %v", tc.text, version, err)
			return intent.Targets[0]
		}
		for _, version := range tc.known {
			assert.True(t, judge(version).Known, "%s: %q", tc.text, version)
		}
		for _, version := range tc.unknown {
			target := judge(version)
			assert.False(t, target.Known, "%s: %q", tc.text, version)
			assert.NotEmpty(t, target.Pinned, "%s: %q", tc.text, version)
		}
	}
}

// A manager that installs another version than the one that was checked fails the call.
func TestInstalledIsWhatWasJudged(t *testing.T) {
	t.Parallel()
	for _, manifest := range []string{`{"name":"demo","version":"2.0.0"}`, `{"name":"other","version":"1.0.0"}`} {
		p := newProject(t, map[string]string{"package.json": "{}"},
			`npm:echo "$*" > args; mkdir -p node_modules/demo; echo '`+manifest+`' > node_modules/demo/package.json`)
		p.inRoot(t, map[string]string{"package.json": `{"dependencies":{"demo":"^1.0.0"}}`})
		_, _, err := install(t, p, map[string]any{"package_name": "demo"})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
		assert.Equal(t, "OTHER_VERSION", fault.From(err).Reason)
		args, err := os.ReadFile(p.path("args"))
		require.NoError(t, err)
		assert.Contains(t, string(args), "-- demo@^1.0.0\n")
	}
}

// A manifest that changes after the check does not change what is installed.
func TestManifestsThatChangeMeanwhile(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0"}}`}, "npm:touch ran")
	tool := p.tool(t, "PACKAGE_INSTALL")
	args := []byte(`{"package_name":"demo"}`)
	intent, err := tool.(tools.Intender).Intent(t.Context(), p.Env, args)
	require.NoError(t, err)
	assert.Equal(t, "1.0.0", intent.Targets[0].Version)
	p.write(t, map[string]string{"package.json": `{"dependencies":{"demo":"2.0.0"}}`})
	p.Allows = func(target tools.Target) bool { return target == intent.Targets[0] }
	_, err = tool.Call(t.Context(), p.Env, args)
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	assert.NoFileExists(t, p.path("ran"))
}

// Other packages that the manifest of the workspace makes a manager download need an approval, too.
func TestPackagesBesideTheOneThatIsAsked(t *testing.T) {
	t.Parallel()
	other := func(name, version string) tools.Target {
		return tools.Target{Kind: tools.Package, Name: name, Version: version}
	}
	for _, tc := range []struct {
		manager, file, root, workspace string
		want                           []tools.Target
	}{
		{"npm", "package.json", `{"dependencies":{"demo":"1.0.0","lib":"^2.0.0"}}`, `{"dependencies":{"lib":"^2.0.0"}}`, nil},
		{"npm", "package.json", `{"dependencies":{"demo":"1.0.0","lib":"^2.0.0"}}`, `{"dependencies":{"lib":"3.0.0"}}`, []tools.Target{other("npm:lib", "3.0.0")}},
		{"npm", "package.json", `{"dependencies":{"demo":"1.0.0"}}`, `{"devDependencies":{"evil":"https://u:canary@evil.example/?x"}}`, []tools.Target{other("npm:evil", "https://…@evil.example/?x")}},
		{"npm", "package.json", `{"dependencies":{"demo":"1.0.0"}}`, `{"overrides":{"deep":{".":"1.0.0","deeper":"npm:evil@1"}}}`, []tools.Target{other("npm:deep", "1.0.0"), other("npm:deeper", "npm:evil@1")}},
		{"cargo", "Cargo.toml", "[dependencies]\ndemo = \"1\"\n", "[dependencies]\nevil = \"6\"\n", []tools.Target{other("cargo:evil", "6")}},
		{"go", "go.mod", "module x\nrequire example.com/demo v1.0.0\n", "module y\nreplace example.com/demo => evil.example/x v6.0.0\n", []tools.Target{other("go:evil.example/x", "v6.0.0")}},
	} {
		p := newProject(t, map[string]string{tc.file: tc.workspace})
		p.search(t, "/nowhere")
		p.inRoot(t, map[string]string{tc.file: tc.root})
		name := "demo"
		if tc.manager == "go" {
			name = "example.com/demo"
		}
		intent, _, err := install(t, p, map[string]any{"package_name": name, "package_manager": tc.manager})
		require.Len(t, intent.Targets, 1+len(tc.want), "%s: %v", tc.workspace, err)
		assert.True(t, intent.Targets[0].Known, tc.workspace)
		for i, want := range tc.want {
			got := intent.Targets[1+i]
			assert.NotEmpty(t, got.Note+got.Pinned)
			got.Note, got.Pinned = "", ""
			assert.Equal(t, want, got)
		}
	}
}
