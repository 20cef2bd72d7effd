package proc

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
)

// SystemPath returns the default folders in which programs are looked up.
func SystemPath() []string {
	return []string{"/usr/local/go/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
}

func (c Config) withDefaults() Config {
	if len(c.Path) == 0 {
		c.Path = SystemPath()
	}
	if c.Inherit == nil {
		c.Inherit = []string{
			"HOME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "USER", "LOGNAME", "SSL_CERT_FILE", "SSL_CERT_DIR",
			"GOCACHE", "GOPATH", "GOROOT", "GOFLAGS", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY",
			"GOPRIVATE", "GOTOOLCHAIN", "GOENV", "CGO_ENABLED",
		}
	}
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	if c.Sandbox == "" {
		c.Sandbox = Enforce
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	for _, dir := range c.Path {
		if !filepath.IsAbs(dir) || strings.Contains(dir, ":") {
			return fault.New(fault.ValidationError, "%q is not an absolute directory", dir).WithField("path")
		}
	}
	for _, name := range c.Inherit {
		if secretName(name) {
			return fault.New(fault.ValidationError, "children must not inherit %s", name).WithField("inherit")
		}
	}
	if c.Grace < 0 {
		return fault.New(fault.ValidationError, "the grace must not be negative").WithField("grace")
	}
	return c.validateSandbox()
}

// baseEnv returns the inherited variables. A value that contains a password, such as the URL of a proxy, is not
// inherited.
func baseEnv(c Config) []string {
	env := []string{"PATH=" + strings.Join(c.Path, ":")}
	for _, kv := range c.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if name != "PATH" && slices.Contains(c.Inherit, name) && !hasUserinfo(value) {
			env = append(env, kv)
		}
	}
	return append(env, goCaches(env)...)
}

// goCaches returns variables for the Go caches below HOME, so that a command with another HOME does not compile and
// download everything again.
func goCaches(env []string) []string {
	home := variable(env, "HOME")
	if home == "" {
		return nil
	}
	var caches []string
	if variable(env, "GOCACHE") == "" {
		caches = append(caches, "GOCACHE="+filepath.Join(home, ".cache", "go-build"))
	}
	if variable(env, "GOMODCACHE") == "" && variable(env, "GOPATH") == "" {
		caches = append(caches, "GOMODCACHE="+filepath.Join(home, "go", "pkg", "mod"))
	}
	return caches
}

// variable returns the value of a variable, "" if it is not set. The last of several definitions counts.
func variable(env []string, name string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			return v
		}
	}
	return ""
}

// moduleCaches returns the folders of downloaded Go modules and of the Go tool chain.
func moduleCaches(env []string) []string {
	var found []string
	for _, dir := range []string{variable(env, "GOMODCACHE"), variable(env, "GOROOT")} {
		if filepath.IsAbs(dir) {
			found = append(found, dir)
		}
	}
	for _, dir := range filepath.SplitList(variable(env, "GOPATH")) {
		if filepath.IsAbs(dir) {
			found = append(found, filepath.Join(dir, "pkg", "mod"))
		}
	}
	return found
}

// hiddenFiles returns the paths that no child may access, without duplicates.
func hiddenFiles(c Config) []string {
	var hidden []string
	for _, path := range c.Hidden {
		hidden = append(hidden, filepath.Clean(path))
	}
	if home := variable(c.Environ, "HOME"); filepath.IsAbs(home) {
		for _, name := range secretFiles() {
			hidden = append(hidden, filepath.Join(home, name))
		}
	}
	slices.Sort(hidden)
	return slices.Compact(hidden)
}

// environ returns the environment of one command. The last value of a variable counts, as in exec.Cmd.
func (r *Runner) environ(extra map[string]string, allowed *secret.Set) ([]string, error) {
	env := slices.Clone(r.env)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || reservedName(name) || secretName(name) && !allowed.Holds(extra[name]) {
			return nil, fault.New(fault.ValidationError, "a child must not be given the variable %q", name).WithField("env")
		}
		env = append(env, name+"="+extra[name])
	}
	return env, nil
}

// reservedName reports whether a variable gives access to the node or to the user's ssh agent. No child may see such a
// variable.
func reservedName(name string) bool {
	n := strings.ToUpper(name)
	return strings.HasPrefix(n, "ORCH_") || strings.HasPrefix(n, "SSH_AUTH")
}

// secretName reports whether a variable has the name of a secret. Children never inherit such a variable, even if
// Config.Inherit lists it (S0-086, X-16). A command may set it only to one of its Secrets.
func secretName(name string) bool {
	n := strings.ToUpper(name)
	if reservedName(name) || n == "KEY" || strings.HasSuffix(n, "_KEY") {
		return true
	}
	for _, part := range []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY"} {
		if strings.Contains(n, part) {
			return true
		}
	}
	return false
}

// hasUserinfo reports whether a value looks like a URL with a user name or password.
func hasUserinfo(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	return ok && strings.Contains(rest, "@")
}
