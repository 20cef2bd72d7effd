package proc

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// Mode is the reaction to a child process that cannot be confined fully.
type Mode string

// The modes.
const (
	// Required refuses to start the child, also on machines where a child cannot have its own view of the file system.
	Required Mode = "required"
	// Enforce refuses to start the child. On machines without views, a broker in the node makes the allowed changes of
	// modes, owners, times and attributes. If there can be no broker, these changes are refused.
	Enforce Mode = "enforce"
	// BestEffort starts the child with the confinement that the kernel supports. The first missing mechanism is logged.
	BestEffort Mode = "best-effort"
	// Off confines nothing.
	Off Mode = "off"
)

// Sandbox lists what one child process may access. In addition it may always read and execute the programs and
// libraries of the system. The zero value is the most restrictive: the child reads nothing else, writes nowhere and has
// no network.
type Sandbox struct {
	// Read are files and folders that the child may read and execute, with everything below them. Write are those that
	// it may also change. They are absolute paths without symbolic links, so that a child that replaces a folder by a
	// link does not extend the access of the next child. Missing paths are ignored. Hidden paths (Config.Hidden) below
	// them stay inaccessible: a folder that contains a hidden path can be listed, and its present entries can be used,
	// but no entries can be added. With mount namespaces, folders in Sandbox.Hidden do not cause that restriction.
	Read, Write []string
	// Hidden are absolute paths of files and folders that this process must not access, in addition to Config.Hidden.
	// The longer path takes precedence: a path of Read or Write below a hidden one is accessible, a path that is itself
	// hidden is not. A path that does not exist yet can be hidden.
	Hidden []string
	// Keep are files and folders below Write paths that the child may read but must not change or replace. Missing
	// paths are ignored. Without mount namespaces no entries can be added to the folders that contain them.
	Keep []string
	// KeepInView is like Keep, but is ignored without mount namespaces, where it would be too restrictive.
	KeepInView []string
	// Undeny are paths that the command may access although they are in Bounds.Denied. It is meant for programs with
	// output that the caller filters.
	Undeny []string
	// Network allows the child to reach other machines and, over TCP and UDP, the services of this machine.
	Network bool
	// Loopback gives the child its own loopback network, in which it can connect to itself. The node can create such a
	// network only on Linux as root; otherwise the child has no network. Loopback is ignored if Network is set.
	Loopback bool
}

// Limits bounds the resources of one child process. Its descendants inherit the limits. Each limit applies to a single
// process, except Processes, which the kernel counts per user and ignores for root. The zero value means the defaults.
type Limits struct {
	// Processes bounds the processes and threads of the user. Default: 16,384.
	Processes uint64
	// FileSize bounds each file that is written, in bytes. Default: 16 GiB.
	FileSize uint64
	// Memory bounds the private memory of each process, in bytes. Default: no limit.
	Memory uint64
}

// Support is the confinement that the machine supports.
type Support struct {
	// Landlock is the version of its ABI; 0 without Landlock.
	Landlock int
	// Seccomp is true when system calls can be filtered.
	Seccomp bool
	// Views is true when each child can have its own view of the file system, in a mount namespace.
	Views bool
	// Loopback is true when children can have their own loopback network.
	Loopback bool
}

// Enough reports whether the support is sufficient for a mode.
func (s Support) Enough(mode Mode) bool {
	switch mode {
	case Required:
		return s.Landlock >= leastLandlock && s.Seccomp && s.Views
	case Enforce:
		return s.Landlock >= leastLandlock && s.Seccomp
	default:
		return true
	}
}

// String lists the supported mechanisms in one line.
func (s Support) String() string {
	landlock, filter, metadata, loopback := "none", "no", "no wall", "no"
	if s.Landlock > 0 {
		landlock = strconv.Itoa(s.Landlock)
	}
	if s.Seccomp {
		filter, metadata = "yes", "made by the node for each program"
	}
	if s.Views {
		metadata = "bounded by a mount namespace for each program"
	}
	if s.Loopback {
		loopback = "yes"
	}
	return "Landlock " + landlock + ", filter for system calls " + filter + ", changes of modes and owners " + metadata +
		", loopback networks for tests " + loopback
}

// leastLandlock is the first Landlock version that confines signals and abstract sockets.
const leastLandlock = 6

func (l Limits) withDefaults() Limits {
	if l.Processes == 0 {
		l.Processes = 16 << 10
	}
	if l.FileSize == 0 {
		l.FileSize = 16 << 30
	}
	return l
}

// unsupported returns the error for a child that cannot be confined.
func unsupported(cause error, what string) error {
	return fault.Wrap(fault.ExecFailed, cause, "nothing was started, because the sandbox cannot be enforced: "+what).
		WithReason("SANDBOX_UNAVAILABLE").WithField("sandbox").
		WithHint("orch doctor shows what is missing; sandbox: best-effort runs programs with the confinement that is available")
}

// secretFiles returns files and folders, relative to a home, that contain keys or allow running a program outside of
// the sandbox. They are hidden from every child.
func secretFiles() []string {
	return []string{
		".orch", ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".git-credentials", ".npmrc", ".pypirc",
		".password-store", ".vault-token", ".config/gh", ".config/gcloud", ".config/op", ".config/rclone", ".config/git/credentials",
		".cargo/credentials", ".cargo/credentials.toml", ".terraform.d/credentials.tfrc.json", ".local/share/keyrings",
	}
}

// systemFiles returns patterns of the paths that every child may read and execute.
func systemFiles() []string {
	etc := strings.Fields(`
		alternatives bash.bashrc ca-certificates ca-certificates.conf crypto-policies debian_version environment.d fonts
		gai.conf gitattributes gitconfig group host.conf hosts inputrc java-* ld.so.cache ld.so.conf ld.so.conf.d
		locale.alias locale.conf localtime lsb-release magic mime.types nsswitch.conf os-release passwd perl php pki/ca-trust
		pki/tls/certs pki/tls/cert.pem pki/tls/openssl.cnf profile protocols python3*
		resolv.conf rpc services shells ssl/cert.pem ssl/certs ssl/openssl.cnf terminfo timezone xdg`)
	all := []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run/systemd/resolve", "/run/resolvconf",
		"/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
	}
	for _, name := range etc {
		all = append(all, "/etc/"+name)
	}
	return all
}

// devices returns the devices that every child may read and write.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// within reports whether path is dir or below it; both must be clean.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func (c Config) validateSandbox() error {
	if !slices.Contains([]Mode{Required, Enforce, BestEffort, Off}, c.Sandbox) {
		return fault.New(fault.ValidationError, "%q is none of required, enforce, best-effort, off", c.Sandbox).WithField("sandbox")
	}
	for _, list := range []struct {
		field string
		paths []string
	}{{"read", c.Read}, {"write", c.Write}, {"hidden", c.Hidden}} {
		if err := absolute(list.field, list.paths); err != nil {
			return err
		}
	}
	return nil
}

// hiddenBelow returns the paths of Hidden that apply below a place of Read or Write. Paths that contain the place do
// not apply, because the longer path takes precedence.
func (s Sandbox) hiddenBelow(place string) []string {
	var hidden []string
	for _, path := range s.Hidden {
		if path = filepath.Clean(path); path == place || !within(place, path) {
			hidden = append(hidden, path)
		}
	}
	return hidden
}

// uncoveredBelow is hiddenBelow without existing folders. In the view of the command an empty folder covers each of
// these, so entries can be added to their parents. Files and missing paths cannot be covered.
func (s Sandbox) uncoveredBelow(place string) []string {
	return slices.DeleteFunc(s.hiddenBelow(place), func(path string) bool {
		info, err := os.Lstat(path)
		return err == nil && info.IsDir() && path != place
	})
}

// unwritableBelow returns the paths of hiddenBelow and Keep, for a writable place without mount namespaces.
func (s Sandbox) unwritableBelow(place string) []string {
	return append(s.hiddenBelow(place), s.Keep...)
}

// absolute returns VALIDATION_ERROR with the given field unless all paths are absolute and without NUL.
func absolute(field string, paths []string) error {
	for _, path := range paths {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return fault.New(fault.ValidationError, "%q is not an absolute path", path).WithField(field)
		}
	}
	return nil
}

// realSystem returns the real paths that match the patterns.
func realSystem(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			matches = nil // the pattern is invalid
		}
		for _, path := range matches {
			if target, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(found, target) {
				found = append(found, target)
			}
		}
	}
	return found
}

// logMissing logs the first mechanism that is missing.
func (r *Runner) logMissing(what string, err error) {
	r.missing.Do(func() {
		r.log.Warn("sandbox_incomplete", slog.String("missing", what), slog.Any("error", err))
	})
}
