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

// Mode says what becomes of a child process that cannot be confined as it should be.
type Mode string

// The modes.
const (
	// Required refuses to start it, and does so too where children cannot have a view of the file system of their own.
	Required Mode = "required"
	// Enforce refuses to start it. Without views, the node makes those changes of modes, owners, times and attributes
	// that a child may make, or nobody does.
	Enforce Mode = "enforce"
	// BestEffort starts it behind the walls that the kernel has, and logs once what is missing.
	BestEffort Mode = "best-effort"
	// Off confines nothing.
	Off Mode = "off"
)

// Sandbox is what one child process may touch beside the programs and libraries of the system, which
// it may always read and run. The zero value is the narrowest: it reads nothing else, writes nowhere and
// has no network.
type Sandbox struct {
	// Read names files and folders that it may read and run, with all that is below them; Write those
	// that it may change as well. They are absolute paths without a symbolic link in them, so that a child
	// that swaps a folder for a link does not widen what the next one may touch. What does not exist
	// counts for nothing. What is hidden (Config.Hidden) stays out of reach below them: a folder with
	// something hidden in it can be listed, and what is in it now be used, but gets no new entries. Folders that are in Hidden
	// below hinder nothing where there are mount namespaces.
	Read, Write []string
	// Hidden names files and folders that this process must not touch, beside those of Config.Hidden. The longer
	// path wins: a place of Read or Write below a hidden one is granted, one that is hidden itself is not. What
	// does not exist yet can be hidden. Absolute paths.
	Hidden []string
	// Keep names files and folders below places of Write that it reads but must not change, nor put something else in the place
	// of. Those that do not exist count for nothing. Without mount namespaces the folders above them get no new entries.
	Keep []string
	// KeepInView is Keep for what would be too much without mount namespaces: there it counts for nothing.
	KeepInView []string
	// Undeny names places that the command reaches although its call does not (Bounds.Denied): for programs whose output
	// the caller holds against what is denied.
	Undeny []string
	// Network lets it reach other machines and, over TCP and UDP, the services of this one.
	Network bool
	// Loopback gives it a loopback network of its own, in which it can talk to itself, where the node may
	// make one: on Linux as root. Elsewhere it has none. With Network it means nothing.
	Loopback bool
}

// Limits bound what one child process uses up. They are inherited, and counted per process but for
// Processes, which the kernel counts per user and not at all for root. The zero value has the defaults.
type Limits struct {
	// Processes bounds the processes and threads of the user. Default: 16,384.
	Processes uint64
	// FileSize bounds each file that is written, in bytes. Default: 16 GiB.
	FileSize uint64
	// Memory bounds the private memory of each process, in bytes. Default: no bound.
	Memory uint64
}

// Support says what the machine can confine.
type Support struct {
	// Landlock is the version of its interface, 0 without it.
	Landlock int
	// Seccomp is true when system calls can be filtered.
	Seccomp bool
	// Views is true when each child can have a view of the file system of its own, in a mount namespace.
	Views bool
	// Loopback is true when children can have a loopback network of their own.
	Loopback bool
}

// Enough reports whether a mode can work.
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

// String lists the walls in one line.
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

// leastLandlock is the first version of Landlock that confines signals and abstract sockets.
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

// unsupported is the error of a child that cannot be confined.
func unsupported(cause error, what string) error {
	return fault.Wrap(fault.ExecFailed, cause, "nothing was started, because the sandbox cannot be enforced: "+what).
		WithReason("SANDBOX_UNAVAILABLE").WithField("sandbox").
		WithHint("orch doctor tells what is missing; sandbox: best-effort runs programs behind the walls that there are")
}

// secrets are files and folders below a home that hold keys, or let a program run outside of the
// sandbox. They are hidden from every child.
func secrets() []string {
	return []string{
		".orch", ".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".netrc", ".git-credentials", ".npmrc", ".pypirc",
		".password-store", ".vault-token", ".config/gh", ".config/gcloud", ".config/op", ".config/rclone", ".config/git/credentials",
		".cargo/credentials", ".cargo/credentials.toml", ".terraform.d/credentials.tfrc.json", ".local/share/keyrings",
	}
}

// systemFiles is what every child may read and run, as patterns.
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

// devices may be read and written by every child.
func devices() []string {
	return []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
}

// within reports whether path is dir or lies below it; both are clean.
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

// hides returns which of the hidden paths count for a place that the command names: those that it lies below do not.
func (s Sandbox) hides(place string) []string {
	var hidden []string
	for _, path := range s.Hidden {
		if path = filepath.Clean(path); path == place || !within(place, path) {
			hidden = append(hidden, path)
		}
	}
	return hidden
}

// hidesUncovered is hides without the folders that are there: an empty one covers each of them in the view of the command, so that
// the folder above may get new entries. Files, and what does not exist yet, nothing covers.
func (s Sandbox) hidesUncovered(place string) []string {
	return slices.DeleteFunc(s.hides(place), func(path string) bool {
		info, err := os.Lstat(path)
		return err == nil && info.IsDir() && path != place
	})
}

// spares is hides for a place to be written, where mount namespaces do not keep what is to be kept.
func (s Sandbox) spares(place string) []string { return append(s.hides(place), s.Keep...) }

// absolute checks that all paths are absolute.
func absolute(field string, paths []string) error {
	for _, path := range paths {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return fault.New(fault.ValidationError, "%q is no absolute path", path).WithField(field)
		}
	}
	return nil
}

// realSystem returns the paths that every child may read, without symbolic links.
func realSystem(patterns []string) []string {
	var found []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			matches = nil // such a name is read literally by nobody
		}
		for _, path := range matches {
			if target, err := filepath.EvalSymlinks(path); err == nil && !slices.Contains(found, target) {
				found = append(found, target)
			}
		}
	}
	return found
}

// incomplete logs the first wall that is missing.
func (r *Runner) incomplete(what string, err error) {
	r.missing.Do(func() {
		r.log.Warn("sandbox_incomplete", slog.String("missing", what), slog.Any("error", err))
	})
}
