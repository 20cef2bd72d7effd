package build_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
	"github.com/orch-dev/orch/tools"
)

type packageOutput struct {
	PackageName      string `json:"package_name"`
	InstalledVersion string `json:"installed_version"`
	PackageManager   string `json:"package_manager"`
}

func install(t *testing.T, p project, args map[string]any) (tools.Intent, packageOutput, error) {
	t.Helper()
	return call[packageOutput](t, p, "PACKAGE_INSTALL", args)
}

// tarball returns an archive of npm.
func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o644, Size: int64(len(text))}))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, zipped.Close())
	return b.Bytes()
}

// archive returns a zip file.
func archive(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range files {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte(text))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func serve(mux *http.ServeMux, path, text string) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// npmRegistry serves the package demo, whose install script would create a file.
func npmRegistry(t *testing.T) string {
	t.Helper()
	manifest := func(version string) string {
		return `{"name":"demo","version":"` + version + `","scripts":{"postinstall":"touch ../../pwn"}}`
	}
	versions, archives := []string{}, map[string][]byte{}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for _, version := range []string{"1.0.0", "1.2.0", "2.0.0"} {
		data := tarball(t, map[string]string{"package.json": manifest(version), "index.js": ""})
		archives[version] = data
		sum := sha512.Sum512(data)
		versions = append(versions, fmt.Sprintf(`%q:{"name":"demo","version":%q,"hasInstallScript":true,"dist":{"tarball":"%s/demo/-/demo-%s.tgz","integrity":"sha512-%s"}}`,
			version, version, server.URL, version, base64.StdEncoding.EncodeToString(sum[:])))
	}
	serve(mux, "/demo", `{"name":"demo","dist-tags":{"latest":"2.0.0"},"versions":{`+strings.Join(versions, ",")+`}}`)
	for version, data := range archives {
		serve(mux, "/demo/-/demo-"+version+".tgz", string(data))
	}
	return server.URL
}

// The real npm, with a registry of the test.
func TestInstallNPM(t *testing.T) {
	t.Parallel()
	need.Program(t, "npm")
	p := newProject(t, map[string]string{"package.json": `{"name":"x","version":"1.0.0"}`})
	p.cfg.NPMRegistry = npmRegistry(t)
	intent, out, err := install(t, p, map[string]any{"package_name": "demo"})
	require.NoError(t, err)
	assert.Equal(t, tools.Intent{Targets: []tools.Target{{Kind: tools.Package, Name: "npm:demo"}}}, intent, "new, so somebody has to approve it")
	assert.Equal(t, packageOutput{"demo", "2.0.0", "npm"}, out)
	assert.NoFileExists(t, p.path("pwn"), "scripts of packages do not run")

	intent, out, err = install(t, p, map[string]any{"package_name": "demo", "version": "1.0.0"})
	require.NoError(t, err)
	require.Len(t, intent.Targets, 1)
	assert.False(t, intent.Targets[0].Known, "a manifest that the task has written says nothing")
	assert.Contains(t, intent.Targets[0].Note, "in the workspace, where this task itself writes")
	assert.Equal(t, "1.0.0", out.InstalledVersion)

	p.write(t, map[string]string{"package.json": `{"dependencies":{"demo":"~1.2.0"}}`})
	require.NoError(t, os.RemoveAll(p.path("node_modules")))
	require.NoError(t, os.Remove(p.path("package-lock.json")))
	_, out, err = install(t, p, map[string]any{"package_name": "demo"})
	require.NoError(t, err)
	assert.Equal(t, "1.2.0", out.InstalledVersion, "the manifest says which version")

	_, _, err = install(t, p, map[string]any{"package_name": "absent"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "%v", err)
	assert.Equal(t, "package_name", fault.From(err).Field)
	_, _, err = install(t, p, map[string]any{"package_name": "demo", "version": "9.9.9"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "%v", err)
}

// pipIndex serves versions of the package demo-kit.
func pipIndex(t *testing.T, versions ...string) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	var page strings.Builder
	for _, version := range versions {
		name := "demo_kit-" + version
		fmt.Fprintf(&page, `<a href="/%[1]s-py3-none-any.whl">%[1]s-py3-none-any.whl</a>`, name)
		serve(mux, "/"+name+"-py3-none-any.whl", string(archive(t, map[string]string{
			"demo.py":                    "",
			name + ".dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
			name + ".dist-info/METADATA": "Metadata-Version: 2.1\nName: demo-kit\nVersion: " + version + "\n",
			name + ".dist-info/RECORD":   "",
		})))
	}
	serve(mux, "/simple/demo-kit/", "<!DOCTYPE html><html>"+page.String()+"</html>")
	return server.URL + "/simple"
}

// The real pip, with an index of the test.
func TestInstallPip(t *testing.T) {
	t.Parallel()
	need.Program(t, "pip")
	p := newProject(t, map[string]string{"requirements.txt": "other>=1\nDemo_Kit == 1.5 # why\n"})
	p.cfg.PipIndex = pipIndex(t, "1.5")
	intent, out, err := install(t, p, map[string]any{"package_name": "Demo.Kit", "version": "1.5"})
	require.NoError(t, err)
	assert.Equal(t, "pip:demo-kit", intent.Targets[0].Name)
	assert.Equal(t, packageOutput{"Demo.Kit", "1.5", "pip"}, out)
	assert.FileExists(t, p.path(".venv/pyvenv.cfg"))

	for _, args := range []map[string]any{{"package_name": "absent"}, {"package_name": "demo-kit", "version": "2"}} {
		_, _, err = install(t, p, args)
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), "%v", err)
	}
}

// The task may have changed the virtual environment of the project: its Python has no network.
func TestInstallPipRunsNothingWithTheNetwork(t *testing.T) {
	t.Parallel()
	need.Program(t, "pip")
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	serve(mux, "/simple/demo/", `<!DOCTYPE html><html><a href="/demo-1-py3-none-any.whl">demo-1-py3-none-any.whl</a></html>`)
	serve(mux, "/demo-1-py3-none-any.whl", string(archive(t, map[string]string{
		"demo-1.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"demo-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1\n",
		"demo-1.dist-info/RECORD":   "",
	})))
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	p := newProject(t, map[string]string{
		"requirements.txt": "demo\n", ".venv/pyvenv.cfg": "",
		".venv/bin/python": "#!/bin/bash\ntouch \"$(dirname \"$0\")/ran\"\nexec 3<>/dev/tcp/" + host + "/" + port + " && touch \"$(dirname \"$0\")/reached\"\nexit 1\n",
	})
	require.NoError(t, os.Chmod(p.path(".venv/bin/python"), 0o755))
	p.cfg.PipIndex = server.URL + "/simple"
	_, _, err = install(t, p, map[string]any{"package_name": "demo"})
	require.Error(t, err)
	assert.FileExists(t, p.path(".venv/bin/ran"))
	assert.NoFileExists(t, p.path(".venv/bin/reached"))
}

// The real go command, with a proxy of the test.
func TestInstallGo(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	const module = "/example.com/demo/@v/"
	serve(mux, module+"list", "v1.4.0\n")
	serve(mux, module+"v1.4.0.info", `{"Version":"v1.4.0"}`)
	serve(mux, module+"v1.4.0.mod", "module example.com/demo\n")
	serve(mux, module+"v1.4.0.zip", string(archive(t, map[string]string{
		"example.com/demo@v1.4.0/go.mod": "module example.com/demo\n", "example.com/demo@v1.4.0/sub/demo.go": "package sub\n",
	})))

	p := newProject(t, map[string]string{"go.mod": "module example.com/x\n\ngo 1.24\n"})
	cache := t.TempDir()
	runner, err := proc.New(proc.Config{Environ: []string{"GOPROXY=" + server.URL, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + cache, "HOME=" + t.TempDir(), "GOCACHE=" + filepath.Join(cache, "build")}, Write: []string{cache}})
	require.NoError(t, err)
	p.Exec = runner
	intent, out, err := install(t, p, map[string]any{"package_name": "example.com/demo/sub"})
	require.NoError(t, err)
	assert.Equal(t, []tools.Target{{Kind: tools.Package, Name: "go:example.com/demo/sub"}}, intent.Targets)
	assert.Equal(t, packageOutput{"example.com/demo/sub", "v1.4.0", "go"}, out)
	intent, _, err = install(t, p, map[string]any{"package_name": "example.com/demo", "version": "v1.4.0"})
	require.NoError(t, err)
	assert.NotEmpty(t, intent.Targets[0].Note)
	for _, args := range []map[string]any{{"package_name": "example.com/absent"}, {"package_name": "example.com/demo", "version": "v9.0.0"}} {
		_, _, err = install(t, p, args)
		assert.Equal(t, fault.NotFound, fault.CodeOf(err), "%v", err)
	}
}

// Fake managers that run the given script (S0-140).
func TestInstallWithFakeManagers(t *testing.T) {
	t.Parallel()
	yarn := newProject(t, map[string]string{"package.json": "{}", "yarn.lock": ""},
		`yarn:echo "$*" > args; mkdir -p node_modules/@s/p; echo '{"name":"@s/p","version":"3.1.4"}' > node_modules/@s/p/package.json`)
	_, out, err := install(t, yarn, map[string]any{"package_name": "@s/p"})
	require.NoError(t, err)
	assert.Equal(t, packageOutput{"@s/p", "3.1.4", "yarn"}, out)
	args, err := os.ReadFile(yarn.path("args"))
	require.NoError(t, err)
	assert.Equal(t, "add --ignore-scripts --non-interactive @s/p@latest\n", string(args))

	cargo := newProject(t, map[string]string{"Cargo.toml": "[package]\nname = \"x\"\n"},
		`cargo:echo "$*" >> args; printf '[[package]]\nname = "other"\nversion = "9"\n[[package]]\nname = "serde-json"\nversion = "1.0.7"\n' > Cargo.lock`)
	intent, out, err := install(t, cargo, map[string]any{"package_name": "serde_json", "version": "1"})
	require.NoError(t, err)
	assert.Equal(t, []tools.Target{{Kind: tools.Package, Name: "cargo:serde_json", Version: "1"}}, intent.Targets)
	assert.Equal(t, packageOutput{"serde_json", "1.0.7", "cargo"}, out)
	args, err = os.ReadFile(cargo.path("args"))
	require.NoError(t, err)
	assert.Equal(t, "add --quiet -- serde_json@1\nfetch\n", string(args))
}

func TestInstallFailures(t *testing.T) {
	t.Parallel()
	for script, code := range map[string]fault.Code{
		`echo 'npm error code ERESOLVE could not resolve' >&2; exit 1`:                                                                                                                   fault.Conflict,
		`echo 'npm error code E404' >&2; exit 1`:                                                                                                                                         fault.NotFound,
		`echo 'npm error code ENOTFOUND request to https://no.example failed, getaddrinfo ENOTFOUND: not found' >&2; exit 1`:                                                             fault.NetworkError,
		`echo '[Errno -2] Name or service not known'; echo 'ERROR: No matching distribution found for demo' >&2; exit 1`:                                                                 fault.NetworkError,
		`echo 'WARNING: The repository located at pip.example is not a trusted or secure host and is being ignored.'; echo 'ERROR: No matching distribution found for demo' >&2; exit 1`: fault.NetworkError,
		`echo 'go: demo: unrecognized import path "demo": dial tcp: lookup demo on 127.0.0.53:53: server misbehaving' >&2; exit 1`:                                                       fault.NetworkError,
		`echo 'npm error something https://user:canary@registry.example failed' >&2; exit 1`:                                                                                             fault.ExecFailed,
		`exit 0`: fault.ExecFailed, // but nothing is installed
		`mkdir -p node_modules/demo; echo nonsense > node_modules/demo/package.json`: fault.ExecFailed,
	} {
		p := newProject(t, map[string]string{"package.json": "{}"}, "npm:"+script)
		_, _, err := install(t, p, map[string]any{"package_name": "demo"})
		assert.Equal(t, code, fault.CodeOf(err), script)
		assert.NotContains(t, err.Error(), "canary")
	}
	p := newProject(t, map[string]string{"package.json": "{}"}, "npm:exit 0")
	p.cfg.NPMRegistry = "https://user:canary@registry.example"
	_, _, err := install(t, p, map[string]any{"package_name": "demo"})
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	assert.NotContains(t, err.Error(), "canary")

	p = newProject(t, map[string]string{"package.json": "no json"})
	_, _, err = install(t, p, map[string]any{"package_name": "demo"})
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
}

// Files that the task wrote do not choose the package registry.
func TestSettingsOfTheTask(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"workspace/.npmrc", "workspace/.yarnrc.yml", "workspace/.cargo/config.toml", "temp/.npmrc", "temp/.cargo/config", "temp/.netrc", "temp/.gitconfig"} {
		p := newProject(t, map[string]string{"package.json": `{"name":"x","version":"1.0.0"}`})
		path := filepath.Join(p.Workspace, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("registry=http://127.0.0.1:1/"), 0o600))
		_, _, err := install(t, p, map[string]any{"package_name": "left-pad", "package_manager": "npm"})
		require.True(t, fault.Has(err, fault.Forbidden), "%s: %v", file, err)
		assert.Contains(t, err.Error(), filepath.Base(file))
	}
}

func TestManagerIsMissing(t *testing.T) {
	t.Parallel()
	for manager, name := range map[string]string{"npm": "demo", "yarn": "demo", "pip": "demo", "go": "example.com/demo", "cargo": "demo"} {
		p := newProject(t, nil)
		p.search(t, "/nowhere")
		_, _, err := install(t, p, map[string]any{"package_name": name, "package_manager": manager})
		assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), manager)
		assert.Contains(t, err.Error(), "is not installed")
	}
}

// the manager is detected by the lock file or the manifest.
func TestManagerIsDetected(t *testing.T) {
	t.Parallel()
	for files, want := range map[string]string{
		"package.json":                   "npm",
		"package.json package-lock.json": "npm",
		"package.json yarn.lock":         "yarn",
		"yarn.lock":                      "yarn",
		"requirements.txt":               "pip",
		"pyproject.toml":                 "pip",
		"go.mod":                         "go",
		"go.mod go.sum":                  "go",
		"Cargo.toml Cargo.lock":          "cargo",
		"":                               "",
		"package.json go.mod":            "",
		"package.json package-lock.json yarn.lock": "",
		"requirements.txt Cargo.toml":              "",
	} {
		contents := map[string]string{}
		for file := range strings.FieldsSeq(files) {
			contents[file] = map[string]string{"package.json": "{}", "package-lock.json": "{}"}[file]
		}
		name := "demo"
		if want == "go" {
			name = "example.com/demo"
		}
		p := newProject(t, contents)
		p.search(t, "/nowhere")
		intent, _, err := install(t, p, map[string]any{"package_name": name})
		if want == "" {
			assert.Equal(t, fault.ValidationError, fault.CodeOf(err), files)
			assert.Equal(t, "package_manager", fault.From(err).Field, files)
			continue
		}
		require.Len(t, intent.Targets, 1, "%s: %v", files, err)
		assert.Equal(t, want+":"+name, intent.Targets[0].Name, files)
	}
	_, _, err := install(t, newProject(t, nil), map[string]any{"package_name": "demo", "package_manager": "apt"})
	assert.Equal(t, "package_manager", fault.From(err).Field)
	assert.Contains(t, err.Error(), "npm, yarn, pip, go and cargo")
}

// S0-142: no options, paths, URLs, aliases or shell syntax.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	cases := 0
	p := newProject(t, nil, "npm:touch pwn", "yarn:touch pwn", "pip:touch pwn", "python3:touch pwn", "go:touch pwn", "cargo:touch pwn")
	good := map[string]string{"npm": "demo", "yarn": "demo", "pip": "demo", "go": "example.com/demo", "cargo": "demo"}
	hostile := []string{
		"--global", "-g", "-e", "--", "-", "a;b", "a b", "a\tb", "a\nb", "a|b", "a&b", "a&&b", "$(x)", "`x`", "${x}", "a>b", "a<b", "a'b", `a"b`, `a\b`, "a*", "a?", "[a]", "{a,b}", "!a", "#a", "~/a", "~",
		"../x", "./x", "/x", ".", "..", "a/../b", "a/..", "@../x", "@a/../b", "@a/b/c", "a//b", "file:x", "file:../x", "git+https://x.example/y", "https://x.example/y", "http:x", "git@github.com:a/b",
		"github:a/b", "link:../x", "portal:../x", "workspace:*", "npm:x", "a@npm:b", "a@1", "a==1", "a>=1", "a[b]", "a;python_version>'3'", "a @ https://x.example", "x.tgz", "x.tar.gz", "x.whl", "x.ZIP", "x.git",
		"a\x00b", "a\u202eb", "ä", "ａ", "%2e%2e", "a%2fb", "", " ", " a", "a ", "@", "@a", "a@", "user/repo#ref", "=a", "a=b", "(a)", "a,b", "a\r", "example.com/../x", "example.com/a@latest", "-example.com/a",
		"example.com/-a", "example.com/a/..", "example.com/.a", "example.com//a", "EXAMPLE.com/a", "example.com/a b", "example.com/a;b", strings.Repeat("a", 301),
	}
	for manager, name := range good {
		for _, bad := range hostile {
			for field, args := range map[string]map[string]any{
				"package_name": {"package_name": bad, "package_manager": manager},
				"version":      {"package_name": name, "version": bad, "package_manager": manager},
			} {
				if field == "version" && bad == "" {
					continue // no version
				}
				cases++
				_, _, err := install(t, p, args)
				require.Error(t, err, "%s: %q as %s", manager, bad, field)
				assert.Equal(t, field, fault.From(err).Field, "%s: %q: %v", manager, bad, err)
			}
		}
	}
	assert.NoFileExists(t, p.path("pwn"))
	assert.Greater(t, cases, 700)
	t.Logf("%d hostile names and versions, 0 accepted", cases)
}

// Ordinary names and versions are passed to the manager.
func TestOrdinaryNames(t *testing.T) {
	t.Parallel()
	p := newProject(t, nil)
	p.search(t, "/nowhere")
	for manager, names := range map[string]string{
		"npm":   "left-pad lodash.merge @types/node @babel/core socket.io 7zip-bin jquery",
		"yarn":  "react @vue/cli-service",
		"pip":   "requests Django ruamel.yaml zope.interface PyYAML typing_extensions",
		"go":    "golang.org/x/mod github.com/spf13/cobra gopkg.in/yaml.v3 github.com/nats-io/nats-server/v2 example.com rsc.io/quote",
		"cargo": "serde serde_json tokio-util",
	} {
		versions := map[string]string{
			"npm": "1.2.3 ^1.2 ~1 v2.0.0-rc.1 latest next", "yarn": "1.2.3", "pip": "1 2.0.1 1.0rc1 1!2.0 1.0.post1 2.0.dev3", "go": "v1.2.3 latest v0.0.0-20260101000000-abcdefabcdef v2.0.0+incompatible abcdef0",
			"cargo": "1 1.0 1.0.7 =1.0.7 ^1",
		}[manager]
		for name := range strings.FieldsSeq(names) {
			for version := range strings.FieldsSeq(versions) {
				_, _, err := install(t, p, map[string]any{"package_name": name, "version": version, "package_manager": manager})
				assert.Equal(t, fault.ExecFailed, fault.CodeOf(err), "%s %s %s: %v", manager, name, version, err)
			}
		}
	}
}

// S0-141: a package that a manifest of the project requires is known; one that it only mentions is not, nor is any if
// the task may have written the manifest.
func TestKnownPackages(t *testing.T) {
	t.Parallel()
	const packageJSON = `{"name":"self","dependencies":{"a":"1"},"devDependencies":{"@s/b":"2"},"peerDependencies":{"c":"*"},"optionalDependencies":{"d":"*"},"scripts":{"e":"x"},"overrides":{"f":"1"}}`
	const pyproject = "[project]\nname = \"self\"\ndependencies = [\n  \"a>=1\", # \"comment\"\n  'b[extra]; python_version > \"3\"',\n]\nkeywords = [\"word\"]\n" +
		"[project.optional-dependencies]\ntest = [\"c\"]\n[tool.poetry.dependencies]\nd = \">=1\"\n[tool.other]\ne = \"x\"\n"
	const cargo = "[package]\nname = \"self\"\n[dependencies]\na = \"1\"\nb.version = \"2\"\n[dev-dependencies]\nc = { version = \"1\" }\n[target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dependencies.e]\nversion = \"1\"\n[features]\nf = []\n# g = \"1\"\n"
	for _, tc := range []struct{ manager, file, text, known, unknown string }{
		{"npm", "package.json", packageJSON, "a @s/b c d", "self e f x b"},
		{"pip", "requirements.txt", "a\nb==1\n c >= 2 # d\n-r e\ng[x]>1\nh;python_version>'3'\nhttps://x.example/i.whl\n./j\nk @ file:///x\n", "a b c g h", "d e r i j x k"},
		{"pip", "pyproject.toml", pyproject, "a b c d", "self comment word e extra test"},
		{"cargo", "Cargo.toml", cargo, "a b c d e", "self f g version name"},
		{
			"go", "go.mod", "module example.com/self\n\nrequire example.com/a v1.0.0\n\nrequire (\n\texample.com/b/v2 v2.0.0 // indirect\n)\n\nreplace example.com/c => ../c\n\nexclude example.com/d v1.0.0\n",
			"example.com/a example.com/a/sub example.com/b/v2", "example.com/self example.com/ab example.com/b example.com/c example.com/d",
		},
	} {
		p := newProject(t, nil)
		before := time.Now()
		require.NoError(t, os.WriteFile(filepath.Join(p.Root.Name(), tc.file), []byte(tc.text), 0o600))
		p.search(t, "/nowhere")
		for name := range strings.FieldsSeq(tc.known + " " + tc.unknown) {
			listed := strings.Contains(" "+tc.known+" ", " "+name+" ")
			judged := func(since time.Time) tools.Target {
				p.Since = since
				intent, _, err := install(t, p, map[string]any{"package_name": name, "package_manager": tc.manager})
				require.Len(t, intent.Targets, 1, "%s %s: %v", tc.file, name, err)
				return intent.Targets[0]
			}
			assert.Equal(t, listed, judged(time.Now().Add(time.Hour)).Known, "%s: %s", tc.file, name)
			for _, since := range []time.Time{{}, before, before.Add(-time.Hour)} {
				changed := judged(since)
				assert.False(t, changed.Known, "%s: %s", tc.file, name)
				assert.Equal(t, listed, strings.Contains(changed.Note, "changed after the task began"), "%s: %s", tc.file, name)
			}
		}
	}
	// The modification time can be set by programs, the change time cannot.
	p := newProject(t, nil)
	p.search(t, "/nowhere")
	manifest := filepath.Join(p.Root.Name(), "package.json")
	require.NoError(t, os.WriteFile(manifest, []byte(packageJSON), 0o600))
	require.NoError(t, os.Chtimes(manifest, time.Unix(0, 0), time.Unix(0, 0)))
	p.Since = time.Now()
	intent, _, err := install(t, p, map[string]any{"package_name": "a", "package_manager": "npm"})
	require.Error(t, err)
	assert.False(t, intent.Targets[0].Known)

	// A manifest that the task can write does not select another registry.
	for _, place := range []string{"https://evil.example/a.tgz", "git+ssh://evil.example/a", "evil/a", "npm:evil@1", "file:../a", "link:../a"} {
		p := newProject(t, map[string]string{"package.json": `{"dependencies":{"a":"` + place + `"}}`})
		_, _, err := install(t, p, map[string]any{"package_name": "a", "package_manager": "npm"})
		assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err), place)
	}
	p = newProject(t, nil)
	require.NoError(t, os.Symlink("/etc/passwd", p.path("package.json")))
	_, _, err = install(t, p, map[string]any{"package_name": "root", "package_manager": "npm"})
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err), filepath.Base(p.path("package.json"))+" leads out of the root")
}

// Configured certificates are used by the managers, too.
func TestInstallTrustsTheCertificatesOfTheNode(t *testing.T) {
	t.Parallel()
	p := newProject(t, map[string]string{"package.json": "{}"},
		`npm:echo "$NODE_EXTRA_CA_CERTS" > ca; mkdir -p node_modules/demo; echo '{"name":"demo","version":"1.0.0"}' > node_modules/demo/package.json`)
	p.cfg.CAFile = filepath.Join(p.Workspace, "own.pem")
	require.NoError(t, os.WriteFile(p.cfg.CAFile, []byte("a certificate"), 0o600))
	_, _, err := install(t, p, map[string]any{"package_name": "demo"})
	require.NoError(t, err)
	got, err := os.ReadFile(p.path("ca"))
	require.NoError(t, err)
	assert.Equal(t, p.cfg.CAFile+"\n", string(got))
}
