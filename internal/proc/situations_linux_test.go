package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
)

// situationName is the variable with the situation in which this binary runs again.
const situationName = "PROC_TEST_SITUATION"

// inSituation are the tests that must pass for every user and in a container without namespaces.
const inSituation = "^(TestNoAttackGetsThrough|TestWhatASandboxLetsThrough|TestHiddenFromOneCommand|TestEscapeeStaysConfined|" +
	"TestSwappedFolderIsRefused|TestRunsAsUsual|TestNoMetadataChanges.*|TestInheritedFilesKeepTheirModes|TestNoEscapeFromTheView|" +
	"TestOwnMetadataChanges|TestOwnIPC|TestMetadataChangesWithoutASandbox|TestCommonToolsChangeModes|TestRequired|TestLoopbackIsItsOwn|TestSituation)$"

// again runs the tests of a situation in another process, which is started by start.
func again(t *testing.T, situation string, start func(*exec.Cmd) error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "proc-"+situation) //nolint:usetesting // another user can enter it
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o777))
	binary := filepath.Join(dir, "proc.test")
	copyFile(t, os.Args[0], binary)
	cmd := exec.Command(binary, "-test.run="+inSituation, "-test.timeout=5m")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), situationName+"="+situation, "HOME="+dir, "TMPDIR="+dir)
	var out limited
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, start(cmd))
	assert.NoError(t, cmd.Wait(), string(out))
	assert.Contains(t, string(out), "PASS")
}

// limited is a writer that stores the end of a process's output.
type limited []byte

func (l *limited) Write(p []byte) (int, error) {
	const most = 16 << 10
	*l = append(*l, p...)
	*l = (*l)[max(0, len(*l)-most):]
	return len(p), nil
}

// copyFile copies a program in a separate process. If this process had the copy open for writing, a concurrently forked
// child could inherit the descriptor, and the program could not be started (ETXTBSY) until that child executes.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "cp", from, to).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NoError(t, os.Chmod(to, 0o755))
}

func needRoot(t *testing.T) {
	t.Helper()
	need.That(t, "root", os.Geteuid() == 0 && proc.Probe().Views)
}

func TestAsAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	again(t, "user", func(cmd *exec.Cmd) error {
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd.Start()
	})
}

// An ordinary user has all walls in a user namespace.
func TestInAUserNamespace(t *testing.T) {
	t.Parallel()
	need.Long(t)
	needRoot(t)
	need.Program(t, "unshare")
	unshare, err := exec.LookPath("unshare")
	require.NoError(t, err)
	again(t, "namespace", func(cmd *exec.Cmd) error {
		cmd.Path, cmd.Args = unshare, append([]string{"unshare", "--user", "--map-current-user", "--mount", "--keep-caps"}, cmd.Args...)
		const nobody = 65534
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd.Start()
	})
}

// A container like Docker's: root with fewer capabilities, and a filter that refuses namespaces and mounts.
func TestInAContainerWithoutNamespaces(t *testing.T) {
	t.Parallel()
	need.Long(t)
	needRoot(t)
	again(t, "container", asInContainer)
}

// asInContainer starts a command on a separate thread with the default capabilities of Docker.
func asInContainer(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := contain()
		if err == nil {
			err = cmd.Start()
		}
		started <- err
	}()
	return <-started
}

func contain() error {
	kept := []uintptr{
		unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FSETID, unix.CAP_FOWNER, unix.CAP_MKNOD, unix.CAP_NET_RAW, unix.CAP_SETGID, unix.CAP_SETUID,
		unix.CAP_SETFCAP, unix.CAP_SETPCAP, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_CHROOT, unix.CAP_KILL, unix.CAP_AUDIT_WRITE,
	}
	for capability := range uintptr(unix.CAP_LAST_CAP + 1) {
		if !slices.Contains(kept, capability) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	raw, err := bpf.Assemble(noNamespaces())
	if err != nil {
		return err
	}
	code := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		code[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return call6(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
}

// noNamespaces returns a filter that refuses namespaces and mounts like Docker's profile.
func noNamespaces() []bpf.Instruction {
	const arguments = 16
	deny := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}}
	for _, number := range []uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_MOUNT_SETATTR} {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: 1}, deny)
	}
	return append(program,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE3, SkipTrue: 1}, bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 3},
		bpf.LoadAbsolute{Off: arguments, Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 0x7e020000, SkipTrue: 1}, deny,
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	)
}

// The other tests run in the situation that they are meant for.
func TestSituation(t *testing.T) {
	t.Parallel()
	switch os.Getenv(situationName) {
	case "user":
		assert.NotZero(t, os.Geteuid())
		assert.False(t, proc.Probe().Views, "an ordinary user makes none")
	case "namespace":
		assert.NotZero(t, os.Geteuid())
		assert.True(t, proc.Probe().Views)
	case "container":
		assert.Zero(t, os.Geteuid())
		assert.False(t, proc.Probe().Views, "there are no namespaces")
	}
}

// Programs can change modes, owners and times in their workspace as usual.
func TestCommonToolsChangeModes(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	require.NoError(t, os.WriteFile(filepath.Join(p.workspace, "tool.sh"), []byte("#!/bin/sh\necho ran\n"), 0o644))
	for name, script := range map[string]string{
		"chmod":   "cp ../tool.sh . && chmod +x tool.sh && ./tool.sh | grep -q ran && mkdir -p d/e && chmod -R go-rwx d && stat -c %a d/e | grep -qx 700",
		"cp":      "cp -p ../tool.sh a && cp -a ../tool.sh b && touch -d 2001-02-03T04:05:06Z b && cp -a b c && stat -c %Y c | grep -qx 981173106",
		"install": "install -m 0755 ../tool.sh x && ./x | grep -q ran && install -d -m 0750 dir && stat -c %a dir | grep -qx 750",
		"tar":     "mkdir in && cp ../tool.sh in/x && chmod 751 in/x && touch -d @1000000000 in/x && tar czf t.tgz in && mkdir out && tar xzpf t.tgz -C out && stat -c '%a %Y' out/in/x | grep -qx '751 1000000000'",
		"git":     "git init -q . && cp ../tool.sh x && chmod +x x && git add x && git -c user.name=a -c user.email=a@b commit -qm x && git clone -q . copy && test -x copy/x && git config a.b c",
		"touch":   "touch x && touch -h -d @1000000000 x && ln -s x l && touch -h -d @1000000000 l && stat -c %Y l | grep -qx 1000000000",
		"chown":   "touch x && chown $(id -u):$(id -g) x && chown -h $(id -u) x",
		"python3": "cp ../tool.sh x && python3 -c 'import os, shutil, tempfile; os.chmod(\"x\", 0o755); shutil.copy2(\"x\", \"y\"); os.utime(\"y\", (1, 2)); os.chmod(os.open(\"y\", os.O_RDONLY), 0o711); f = tempfile.NamedTemporaryFile(); os.fchmod(f.fileno(), 0o600)' && stat -c '%a %Y' y | grep -qx '711 2'",
		"node":    "cp ../tool.sh x && node -e 'const fs = require(\"fs\"); fs.chmodSync(\"x\", 0o755); fs.utimesSync(\"x\", 1, 2); fs.cpSync(\"x\", \"y\", {preserveTimestamps: true})' && ./y | grep -q ran",
		"npm":     "mkdir -p pkg/bin && cp ../tool.sh pkg/bin/run && echo '{\"name\":\"pkg\",\"version\":\"1.0.0\",\"bin\":{\"run\":\"bin/run\"}}' >pkg/package.json && echo '{\"name\":\"me\",\"version\":\"1.0.0\"}' >package.json && npm pack ./pkg --silent --cache c && npm install --offline --no-audit --no-fund --silent --cache c ./pkg-1.0.0.tgz && node_modules/.bin/run | grep -q ran",
		"go":      "echo 'module m' >go.mod && printf 'package main\\nfunc main() { println(1) }\\n' >m.go && GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOTOOLCHAIN=local go build -o m . && ./m",
		"make":    "printf 'all:\\n\\tinstall -m 755 ../tool.sh built\\n' >Makefile && make -s && ./built | grep -q ran",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			need.Program(t, name)
			program, err := exec.LookPath(name)
			require.NoError(t, err)
			box := p.sandbox()
			if target, err := filepath.EvalSymlinks(program); err == nil {
				box.Read = append(box.Read, filepath.Dir(filepath.Dir(target)))
			}
			c := bash("set -e; mkdir -p " + name + "; cd " + name + "; " + script)
			c.Dir, c.Sandbox, c.Env = p.workspace, box, map[string]string{"HOME": p.workspace, "TMPDIR": p.workspace}
			res, err := r.Run(t.Context(), c)
			require.NoError(t, err)
			assert.Zero(t, res.ExitCode, res.Stdout+res.Stderr)
		})
	}
}

// A command is not started in mode Required if it cannot be fully confined.
func TestRequired(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Sandbox: proc.Required})
	_, err := r.Run(t.Context(), proc.Command{Name: "true", Dir: p.workspace, Sandbox: p.sandbox()})
	if proc.Probe().Views {
		assert.NoError(t, err)
		return
	}
	assert.Equal(t, fault.ExecFailed, fault.CodeOf(err))
	assert.Equal(t, "SANDBOX_UNAVAILABLE", fault.From(err).Reason)
	assert.ErrorContains(t, err, "namespace")
}
