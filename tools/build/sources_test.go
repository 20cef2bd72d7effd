package build_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/test/need"
)

// writeAll writes files below a folder, and creates their folders.
func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// elsewhere is a file of the workspace that makes a manager download a package from outside the registry, or more
// packages than the root requires.
type elsewhere struct {
	manager string
	files   map[string]string
	// want is the name and version in the target.
	want string
}

func npmLockV3(entries string) map[string]string {
	return map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0"}}`, "package-lock.json": `{"lockfileVersion":3,"packages":{"":{},` + entries + `}}`}
}

func elsewheres() []elsewhere {
	const named = `{"dependencies":{"demo":"1.0.0"}}`
	const crate = "[dependencies]\ndemo = \"1\"\n"
	lock := func(file, text string) map[string]string { return map[string]string{"package.json": named, file: text} }
	return []elsewhere{
		{"npm", npmLockV3(`"node_modules/demo":{"version":"1.0.0","resolved":"https://evil.example/demo/-/demo-1.0.0.tgz"}`), "npm:demo https://evil.example/demo/-/demo-1.0.0.tgz"},
		{"npm", npmLockV3(`"node_modules/demo":{"version":"1.0.0","resolved":"https://registry.npmjs.org/evil/-/evil-1.0.0.tgz"}`), "npm:demo https://registry.npmjs.org/evil/-/evil-1.0.0.tgz"},
		{"npm", npmLockV3(`"node_modules/demo":{"version":"1.0.0","resolved":"https://registry.npmjs.org/demo/-/demo-6.0.0.tgz"}`), "npm:demo https://registry.npmjs.org/demo/-/demo-6.0.0.tgz"},
		{"npm", npmLockV3(`"node_modules/demo":{"version":"1.0.0","resolved":"https://registry.npmjs.org/@evil/demo/-/demo-1.0.0.tgz"}`), "npm:demo https://registry.npmjs.org/@evil/demo/-/demo-1.0.0.tgz"},
		{"npm", npmLockV3(`"node_modules/demo/node_modules/@s/deep":{"version":"1.0.0","resolved":"git+ssh://git@evil.example/deep.git#0"}`), "npm:@s/deep git+ssh://…@evil.example/deep.git#0"},
		{"npm", npmLockV3(`"node_modules/deep":{"version":"6.0.0","name":"evil"}`), "npm:deep npm:evil@6.0.0"},
		{"npm", npmLockV3(`"node_modules/deep":{"resolved":"../evil","link":true}`), "npm:deep link:../evil"},
		{"npm", lock("package-lock.json", `{"packages":{"node_modules/deep":{"version":"1.0.0","resolved":"https://evil.example/"}},"Packages":{"node_modules/deep":{"version":"1.0.0"}}}`), "npm:deep https://evil.example/"},
		{"npm", lock("package-lock.json", `{"lockfileVersion":1,"dependencies":{"demo":{"version":"1.0.0","dependencies":{"deep":{"version":"https://evil.example/deep.tgz"}}}}}`), "npm:deep https://evil.example/deep.tgz"},
		{"npm", lock("npm-shrinkwrap.json", `{"packages":{"node_modules/deep":{"version":"1.0.0","resolved":"http://registry.npmjs.org/deep/-/deep-1.0.0.tgz"}}}`), "npm:deep http://registry.npmjs.org/deep/-/deep-1.0.0.tgz"},
		{"npm", lock("yarn.lock", "demo@1.0.0:\n  version \"1.0.0\"\n  resolved \"https://evil.example/demo-1.0.0.tgz#aa\"\n"), "npm:demo https://evil.example/demo-1.0.0.tgz#aa"},
		{"yarn", lock("yarn.lock", "\"@s/deep@^1.0.0\", \"@s/deep@1\":\n  version \"1.0.0\"\n  resolved \"https://registry.yarnpkg.com/evil/-/evil-1.0.0.tgz#aa\"\n"), "yarn:@s/deep https://registry.yarnpkg.com/evil/-/evil-1.0.0.tgz#aa"},
		{"yarn", lock("yarn.lock", "__metadata:\n  version: 8\n\n\"deep@npm:1\":\n  version: 1.0.0\n  resolution: \"deep@https://evil.example/deep.tgz\"\n"), "yarn:deep deep@https://evil.example/deep.tgz"},
		{"yarn", lock("yarn.lock", "demo@1:\n  version \"1.0.0\"\n  resolved:\"https://evil.example/a.tgz\"\n"), "yarn:demo https://evil.example/a.tgz"},
		{"yarn", lock("yarn.lock", "demo@1:\r  version \"1.0.0\"\r  \"resolved\"\"https://evil.example/b.tgz\"\r"), "yarn:demo https://evil.example/b.tgz"},
		{"npm", lock("yarn.lock", "demo@1, other@1:\n  version \"1.0.0\"\n  resolved \"https://registry.npmjs.org/demo/-/demo-1.0.0.tgz\"\n"), "npm:other https://registry.npmjs.org/demo/-/demo-1.0.0.tgz"},
		{"yarn", lock("yarn.lock", "demo@1:\n  name evil\n  version \"1.0.0\"\n"), "yarn:demo evil"},
		{"npm", map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0"},"workspaces":["packages/*"]}`, "packages/a/package.json": `{"devDependencies":{"evil":"6.0.0"}}`}, "npm:evil 6.0.0"},
		{"npm", map[string]string{"package.json": `{"overrides":{"demo":"2.0.0"},"Overrides":{"demo":"1.0.0"}}`}, "npm:demo 2.0.0"},
		{"yarn", map[string]string{"package.json": `{"resolutions":{"demo":"https://evil.example/demo.tgz"}}`}, "yarn:demo https://evil.example/demo.tgz"},
		{"npm", map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0","evil":"git+https://evil.example/x.git"}}`}, "npm:evil git+https://evil.example/x.git"},
		{"cargo", map[string]string{"Cargo.toml": crate + "[patch.crates-io]\ndemo = { git = \"https://evil.example/x\", rev = \"abc\" }\n"}, "cargo:demo git=https://evil.example/x rev=abc"},
		{"cargo", map[string]string{"Cargo.toml": crate + "[replace]\n\"demo:1.0.0\" = { path = \"evil\" }\n"}, "cargo:demo:1.0.0 path=evil"},
		{"cargo", map[string]string{"Cargo.toml": crate + "[workspace]\nmembers = [\"crates/*\"]\n", "crates/a/Cargo.toml": "[dependencies]\nevil = { version = \"6\", registry = \"other\" }\n"}, "cargo:evil registry=other version=6"},
		{"cargo", map[string]string{"Cargo.toml": crate + "[dev_dependencies]\nevil = \"6\"\n"}, "cargo:evil 6"},
		{"go", map[string]string{"go.mod": "module x\nrequire example.com/demo v1.0.0\nreplace example.com/demo => ../evil\n"}, "go:example.com/demo ../evil"},
		{"go", map[string]string{"go.mod": "module x\nrequire example.com/demo v1.0.0\nreplace (\n\texample.com/demo v1.0.0 => example.com/demo v6.0.0\n)\n"}, "go:example.com/demo v6.0.0"},
	}
}

// A package that the workspace takes from outside the registry needs an approval that names its source, unless the
// root contains the same entry.
func TestSourcesInTheWorkspace(t *testing.T) {
	t.Parallel()
	roots := map[string]map[string]string{
		"npm": {"package.json": `{"dependencies":{"demo":"1.0.0"}}`}, "yarn": {"package.json": `{"dependencies":{"demo":"1.0.0"}}`},
		"cargo": {"Cargo.toml": "[dependencies]\ndemo = \"1\"\n"}, "go": {"go.mod": "module x\nrequire example.com/demo v1.0.0\n"},
	}
	for _, tc := range elsewheres() {
		for _, same := range []bool{false, true} {
			p := newProject(t, nil)
			p.search(t, "/nowhere")
			writeAll(t, p.path(""), tc.files)
			p.inRoot(t, roots[tc.manager])
			if same {
				writeAll(t, p.Root.Name(), tc.files)
			}
			p.Since = time.Now().Add(time.Hour)
			name := map[bool]string{true: "example.com/demo", false: "demo"}[tc.manager == "go"]
			intent, _, _ := install(t, p, map[string]any{"package_name": name, "package_manager": tc.manager})
			require.NotEmpty(t, intent.Targets, tc)
			var asked []string
			for _, target := range intent.Targets[1:] {
				if !target.Known {
					assert.NotEmpty(t, target.Note+target.Pinned, tc)
					asked = append(asked, target.Name+" "+target.Version)
				}
			}
			if same {
				assert.Empty(t, asked, tc)
				continue
			}
			assert.Equal(t, []string{tc.want}, asked, tc)
		}
	}
}

// A package from the registry needs no approval, in any format of the lock file.
func TestLockFilesOfTheRegistry(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ registry, manager, file, text string }{
		{"", "npm", "package-lock.json", `{"packages":{"":{},"packages/a":{},"node_modules/@s/deep":{"version":"1.0.0","resolved":"https://registry.npmjs.org/@s/deep/-/deep-1.0.0.tgz","integrity":"sha512-x"},"node_modules/x":{"version":"2.0.0","inBundle":true}}}`},
		{"https://npm.example/api", "npm", "package-lock.json", `{"packages":{"node_modules/a":{"version":"1.0.0","resolved":"https://npm.example/api/a/-/a-1.0.0.tgz"},"node_modules/b":{"version":"1.0.0","resolved":"https://registry.npmjs.org/b/-/b-1.0.0.tgz"},"node_modules/@s/c":{"version":"1.0.0","resolved":"https://npm.example/api/download/@s/c/1.0.0/abc"}}}`},
		{"", "yarn", "yarn.lock", "demo@1, demo@^1.0.0:\n  version \"1.0.0\"\n  resolved \"https://registry.yarnpkg.com/demo/-/demo-1.0.0.tgz#aa\"\n  integrity sha512-x\n  dependencies:\n    resolved \"^1\"\n"},
		{"", "yarn", "yarn.lock", "\"@s/demo@npm:^1.0.0\":\n  version: 1.0.0\n  resolution: \"@s/demo@npm:1.0.0\"\n"},
	} {
		p := newProject(t, map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0"}}`, tc.file: tc.text})
		p.search(t, "/nowhere")
		p.cfg.NPMRegistry = tc.registry
		p.inRoot(t, map[string]string{"package.json": `{"dependencies":{"demo":"1.0.0"}}`})
		intent, _, _ := install(t, p, map[string]any{"package_name": "demo", "package_manager": tc.manager})
		require.Len(t, intent.Targets, 1, tc)
		assert.True(t, intent.Targets[0].Known, tc)
	}
}

// Manifests that npm interprets differently are rejected, and so are too many of them.
func TestManifestsThatCannotBeJudged(t *testing.T) {
	t.Parallel()
	packages := map[string]string{}
	for i := range 101 {
		packages[fmt.Sprintf("p%d", i)] = "1"
	}
	many, err := json.Marshal(map[string]any{"dependencies": packages})
	require.NoError(t, err)
	for text, want := range map[string]fault.Code{
		`{"dependencies":["evil@6"]}`:                   fault.InvalidFormat,
		`{"dependencies":"evil"}`:                       fault.InvalidFormat,
		`{"dependencies":{"evil":"6.0.0","other":1}}`:   fault.InvalidFormat,
		`{"overrides":["evil"]}`:                        fault.InvalidFormat,
		string(many):                                    fault.ValidationError,
		`{"dependencies":{"demo":"1.0.0"},"overrides":`: fault.ExecFailed,
	} {
		p := newProject(t, map[string]string{"package.json": text}, "npm:touch ran")
		_, _, err := install(t, p, map[string]any{"package_name": "demo", "package_manager": "npm"})
		assert.Equal(t, want, fault.CodeOf(err), "%.60s: %v", text, err)
		assert.NoFileExists(t, p.path("ran"))
	}
}

// Lines that yarn and npm interpret differently are rejected.
func TestLinesOfYarnLock(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`version "1.0.0" resolved "https://evil.example"`, `integrity, resolved "https://evil.example"`, `"integrity""x""resolved""https://evil.example"`,
		`"\u0072esolved" "https://evil.example"`, `integrity x resolved : "https://evil.example"`,
	} {
		p := newProject(t, map[string]string{"package.json": "{}", "yarn.lock": "demo@1:\n  " + line + "\n"}, "yarn:touch ran")
		_, _, err := install(t, p, map[string]any{"package_name": "demo", "package_manager": "yarn"})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), "%s: %v", line, err)
		assert.NoFileExists(t, p.path("ran"))
	}
}

// Settings in the folders above the workspace, which yarn and cargo obey, and another tool chain are rejected.
func TestSettingsAboveTheWorkspace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ manager, file string }{
		{"cargo", "../.cargo/config.toml"},
		{"cargo", "../Cargo.toml"},
		{"cargo", "../../.cargo/config"},
		{"cargo", "../../../.cargo/config.toml"},
		{"cargo", "rust-toolchain.toml"},
		{"yarn", "../.yarnrc"},
		{"yarn", "../../../.npmrc"},
		{"yarn", "../package.json"},
		{"cargo", "../temp/.rustup/settings.toml"},
	} {
		p := newProject(t, map[string]string{"package.json": "{}", "Cargo.toml": ""}, tc.manager+":touch ran")
		p.Since = time.Now().Add(-time.Hour)
		writeAll(t, p.path(""), map[string]string{tc.file: "x = 1"})
		_, _, err := install(t, p, map[string]any{"package_name": "demo", "package_manager": tc.manager})
		assert.True(t, fault.Has(err, fault.Forbidden), "%s: %v", tc.file, err)
		assert.Equal(t, "MANAGER_SETTINGS", fault.From(err).Reason, tc.file)
		assert.NoFileExists(t, p.path("ran"))
	}
	p := newProject(t, map[string]string{"Cargo.toml": "", "rust-toolchain.toml": "[toolchain]\n"}, "cargo:touch ran")
	writeAll(t, p.Root.Name(), map[string]string{".cargo/config.toml": "", "rust-toolchain.toml": "[toolchain]\n"})
	p.Since = time.Now().Add(time.Hour)
	_, _, err := install(t, p, map[string]any{"package_name": "demo", "package_manager": "cargo"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), "what was in the root before the task counts: %v", err)
	assert.FileExists(t, p.path("ran"))
}

// counted serves a folder of a test and counts the requests for one path, whose responses may be cached for an hour.
func counted(t *testing.T, to, path string) (string, *atomic.Int64) {
	t.Helper()
	n := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			n.Add(1)
		}
		w.Header().Set("Cache-Control", "max-age=3600")
		res, err := http.Get(to + r.URL.Path)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL, n
}

// A cached response is in a folder that the task can write: npm requests it again.
func TestRegistryIsAskedEachTime(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	p := newProject(t, map[string]string{"package.json": "{}"})
	registry, asked := counted(t, npmRegistry(t), "/demo")
	p.cfg.NPMRegistry = registry
	for want := range 2 {
		_, out, err := install(t, p, map[string]any{"package_name": "demo", "version": "1.0.0"})
		require.NoError(t, err)
		assert.Equal(t, "1.0.0", out.InstalledVersion)
		assert.Greater(t, int(asked.Load()), want)
		p.write(t, map[string]string{"package.json": "{}"})
		require.NoError(t, os.RemoveAll(p.path("node_modules")))
		require.NoError(t, os.Remove(p.path("package-lock.json")))
	}
	left, err := filepath.Glob(filepath.Join(p.Workspace, "temp", "packages-*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

// digestOf returns the digest of a file on a server in the format of requirements files.
func digestOf(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// The real pip installs only a wheel with a digest in the root.
func TestDigestsOfWheels(t *testing.T) {
	t.Parallel()
	need.Program(t, "pip")
	index := pipIndex(t, "1.0.0")
	good := digestOf(t, strings.TrimSuffix(index, "/simple")+"/demo_kit-1.0.0-py3-none-any.whl")
	bad := "sha256:" + strings.Repeat("0", 64)
	for _, tc := range []struct {
		root, lock, workspace string
		refused               bool
	}{
		{root: "demo-kit==1.0.0 --hash=" + good},
		{root: "demo-kit==1.0.0 \\\n    --hash=" + bad + " \\\n    --hash=" + good},
		{root: "demo-kit==1.0.0 \\\n    --hash=" + bad, refused: true},
		{root: "demo-kit>=1", lock: "Demo_Kit==1.0.0 --hash=" + bad, refused: true},
		{root: "demo-kit>=1", workspace: "demo-kit==1.0 --hash=" + bad, refused: true},
		{root: "demo-kit>=1", lock: "demo-kit==0.9 --hash=" + bad + "\ndemo-kit==1.0.0"},
	} {
		p := newProject(t, map[string]string{"requirements.txt": tc.workspace})
		p.cfg.PipIndex = index
		p.inRoot(t, map[string]string{"requirements.txt": tc.root, "requirements.lock": tc.lock})
		_, out, err := install(t, p, map[string]any{"package_name": "demo-kit", "version": "1.0.0"})
		if !tc.refused {
			require.NoError(t, err, tc)
			assert.Equal(t, "1.0.0", out.InstalledVersion)
			continue
		}
		assert.Equal(t, fault.Conflict, fault.CodeOf(err), tc)
		assert.Equal(t, "OTHER_DIGEST", fault.From(err).Reason, tc)
		found, err := filepath.Glob(p.path(".venv/lib/python*/site-packages/demo*"))
		require.NoError(t, err)
		assert.Empty(t, found, tc)
	}
}

// Options in the requirements of the workspace have no effect on pip.
func TestIndexOfTheWorkspace(t *testing.T) {
	t.Parallel()
	need.Program(t, "pip")
	evil := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { evil.Add(1) }))
	t.Cleanup(server.Close)
	p := newProject(t, map[string]string{
		"requirements.txt": "--index-url " + server.URL + "\n--extra-index-url " + server.URL + "\n-f " + server.URL + "\n-e .\n-r more.txt\nevil @ " + server.URL + "/evil-1-py3-none-any.whl\ndemo-kit\n",
		"more.txt":         "--index-url " + server.URL + "\n", "setup.cfg": "[easy_install]\nindex_url = " + server.URL + "\n", "setup.py": "raise SystemExit(1)",
		"pyproject.toml": "[[tool.uv.index]]\nurl = \"" + server.URL + "\"\n",
	})
	p.cfg.PipIndex = pipIndex(t, "1.0.0")
	_, out, err := install(t, p, map[string]any{"package_name": "demo-kit"})
	require.NoError(t, err)
	assert.Equal(t, "1.0.0", out.InstalledVersion)
	assert.Zero(t, evil.Load())
}

// A package that the project has from a private registry is not installed from the public one without an approval,
// because anybody may have published a package of that name there.
func TestRegistryOfTheProject(t *testing.T) {
	t.Parallel()
	const named = `{"dependencies":{"@s/demo":"1.0.0","demo":"1.0.0"}}`
	for _, tc := range []struct {
		manager, name, file, text string
		asks                      bool
	}{
		{"npm", "demo", ".npmrc", "registry=https://npm.corp.example/\n", true},
		{"npm", "@s/demo", ".npmrc", "@s:registry=https://npm.corp.example/\n", true},
		{"npm", "demo", ".npmrc", "@s:registry=https://npm.corp.example/\n", false},
		{"npm", "demo", ".npmrc", "registry=https://registry.npmjs.org/\nsave-exact=true\n", false},
		{"yarn", "demo", ".yarnrc", "registry \"https://npm.corp.example\"\n", true},
		{"yarn", "demo", ".yarnrc.yml", "npmRegistryServer: https://npm.corp.example\n", true},
		{"pip", "demo", "requirements.txt", "--index-url https://pypi.corp.example/simple\ndemo==1.0.0\n", true},
		{"pip", "demo", "requirements.txt", "--extra-index-url=https://pypi.corp.example/simple\ndemo==1.0.0\n", true},
		{"pip", "demo", "requirements.txt", "-i https://pypi.org/simple\ndemo==1.0.0\n", false},
		{"pip", "demo", "pyproject.toml", "[project]\ndependencies = [\"demo==1.0.0\"]\n[[tool.uv.index]]\nurl = \"https://pypi.corp.example\"\n", true},
	} {
		for _, configured := range []string{"", "https://packages.example/"} {
			p := newProject(t, nil)
			p.search(t, "/nowhere")
			p.cfg.NPMRegistry, p.cfg.PipIndex = configured, configured
			p.inRoot(t, map[string]string{"package.json": named, tc.file: tc.text})
			intent, _, _ := install(t, p, map[string]any{"package_name": tc.name, "package_manager": tc.manager})
			require.Len(t, intent.Targets, 1, tc)
			asks := tc.asks && configured == ""
			assert.Equal(t, asks, !intent.Targets[0].Known, tc)
			assert.Equal(t, asks, strings.Contains(intent.Targets[0].Note, "corp.example") || strings.Contains(intent.Targets[0].Note, "tool.uv.index"), tc)
		}
	}
}
