package proc_test

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/test/need"
)

// prey is the environment for attacks: a workspace that the child may write, a root that it may read, and files that it
// must not access.
type prey struct {
	root, workspace, data, secret, outside string
	tcp, udp, unix, abstract               string
	// victim is the number of a process of the same user.
	victim string
	ipc    ipcPrey
}

func newPrey(t *testing.T) prey {
	t.Helper()
	dir := t.TempDir()
	p := prey{root: filepath.Join(dir, "root"), outside: filepath.Join(dir, "outside")}
	p.workspace, p.data = filepath.Join(p.root, "Working", "TASK"), filepath.Join(p.root, ".orch", "data")
	for _, d := range []string{p.workspace, p.data, p.outside, filepath.Join(p.root, "src")} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	p.secret = filepath.Join(p.data, "auth.json")
	for _, f := range []string{p.secret, filepath.Join(p.outside, "file"), filepath.Join(p.root, "src", "main.go")} {
		require.NoError(t, os.WriteFile(f, []byte("canary"), 0o600))
	}
	p.tcp = listen(t, "tcp", "127.0.0.1:0")
	p.unix = listen(t, "unix", filepath.Join(p.outside, "docker.sock"))
	p.abstract = "orch-test-" + rand.Text()
	listen(t, "unix", "@"+p.abstract)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	p.udp = udp.LocalAddr().String()
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.victim = strconv.Itoa(cmd.Process.Pid)
	p.ipc = newIPCPrey(t)
	return p
}

func listen(t *testing.T, network, addr string) string {
	t.Helper()
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// sandbox is that of a command which reads the root and writes in the workspace.
func (p prey) sandbox() proc.Sandbox {
	return proc.Sandbox{Read: []string{p.root, os.Args[0]}, Write: []string{p.workspace}}
}

// try runs an attack and returns whether it succeeded, and its output.
func (p prey) try(t *testing.T, r *proc.Runner, s proc.Sandbox, name, target string) (bool, string) {
	t.Helper()
	res, err := r.Run(t.Context(), proc.Command{
		Name: os.Args[0], Dir: p.workspace, Sandbox: s, Env: map[string]string{attackName: name, attackTarget: target},
	})
	require.NoError(t, err)
	return res.ExitCode == 0, res.Stdout + res.Stderr
}

// attempt is an attack on a target.
type attempt struct{ attack, target string }

// cases are all attacks with their targets.
func (p prey) cases() []attempt {
	return slices.Concat(p.files(), p.processes(), p.machine(), p.ipc.attempts())
}

// files returns attacks on files that the child may not access.
func (p prey) files() []attempt {
	node := strconv.Itoa(os.Getpid())
	file := filepath.Join(p.outside, "file")
	return []attempt{
		{"read", p.secret},
		{"read by link", p.secret},
		{"write", p.secret},
		{"truncate", p.secret},
		{"remove", p.secret},
		{"move away", p.secret},
		{"hard link", p.secret},
		{"write", filepath.Join(p.data, "new")},
		{"mkdir", filepath.Join(p.data, "new")},
		{"move away", p.data},
		{"move away", filepath.Dir(p.data)},
		{"file handle", p.secret},
		{"chroot", p.data},
		{"mount", p.data},
		{"read", "/proc/" + node + "/root" + p.secret},
		{"read", "/proc/" + node + "/cwd/proc_test.go"},
		{"read", "/proc/self/root" + p.secret},
		{"read", "/dev/fd/../root" + p.secret},
		{"read", file},
		{"list", p.outside},
		{"read by link", file},
		{"write", file},
		{"remove", file},
		{"write", filepath.Join(p.outside, "new")},
		{"read", "/etc/shadow"},
		{"read", "/proc/kcore"},
		{"write", "/proc/sys/kernel/core_pattern"},
		{"list", "/root"},
		{"list", "/tmp"},
		{"list", "/"},
		{"write", filepath.Join(p.root, "src", "main.go")},
		{"truncate", filepath.Join(p.root, "src", "main.go")},
		{"write", filepath.Join(p.root, "new")},
		{"hard link", filepath.Join(p.root, "src", "main.go")},
		{"move away", filepath.Join(p.root, "src", "main.go")},
	}
}

// processes are attacks on the node, which is the process of the test, and on another process.
func (p prey) processes() []attempt {
	node := strconv.Itoa(os.Getpid())
	return []attempt{
		{"read", "/proc/" + node + "/environ"},
		{"read", "/proc/" + node + "/maps"},
		{"read", "/proc/" + node + "/fd/0"},
		{"read memory", node},
		{"write", "/proc/" + node + "/oom_score_adj"},
		{"write", "/proc/" + p.victim + "/oom_score_adj"},
		{"read", "/proc/" + p.victim + "/environ"},
		{"ptrace", node},
		{"ptrace", p.victim},
		{"signal", node},
		{"kill", p.victim},
		{"pidfd signal", node},
		{"steal file", node},
		{"signal threads", node},
		{"environment of threads", node},
		{"memory of threads", node},
		{"trace threads", node},
		{"signal threads", p.victim},
		{"environment of threads", p.victim},
		{"memory of threads", p.victim},
		{"trace threads", p.victim},
		{"limit", node},
		{"limit", p.victim},
		{"renice", node},
		{"renice", p.victim},
		{"renice user", ""},
		{"raise limit", ""},
	}
}

// machine are attacks on the network and on the machine.
func (p prey) machine() []attempt {
	node := strconv.Itoa(os.Getpid())
	return []attempt{
		{"dial tcp", p.tcp},
		{"dial udp", p.udp},
		{"dial unix", p.unix},
		{"dial abstract", p.abstract},
		{"listen", "127.0.0.1:0"},
		{"bind unix", "own.sock"},
		{"datagram pair", ""},
		{"socket vsock", ""},
		{"socket packet", ""},
		{"socket alg", ""},
		{"raw socket", ""},
		{"old interface", ""},
		{"io_uring", ""},
		{"keyring", ""},
		{"bpf", ""},
		{"user namespace", ""},
		{"mount namespace", ""},
		{"join network", node},
		{"mount", p.workspace},
		{"device node", "device"},
		{"set clock", ""},
		{"set host name", ""},
	}
}

func TestNoAttackGetsThrough(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}})
	approved := p.sandbox()
	approved.Write = append(approved.Write, p.root)
	inRoot := map[string]bool{filepath.Join(p.root, "src", "main.go"): true}
	for _, tc := range p.cases() {
		through, said := p.try(t, r, p.sandbox(), tc.attack, tc.target)
		assert.False(t, through, "%s %s: %s", tc.attack, tc.target, said)
		if inRoot[tc.target] {
			continue // somebody has approved that
		}
		through, said = p.try(t, r, approved, tc.attack, tc.target)
		assert.False(t, through, "approved: %s %s: %s", tc.attack, tc.target, said)
	}
	data, err := os.ReadFile(p.secret)
	require.NoError(t, err)
	assert.Equal(t, "canary", string(data))
	victim, err := strconv.Atoi(p.victim)
	require.NoError(t, err)
	assert.NoError(t, syscall.Kill(victim, 0), "the victim lives")
}

// The attacks have teeth: without the sandbox they get through.
func TestAttacksGetThroughWithoutASandbox(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}, Sandbox: proc.Off})
	for _, tc := range []attempt{
		{"read", p.secret},
		{"read by link", p.secret},
		{"hard link", p.secret},
		{"write", filepath.Join(p.data, "new")},
		{"list", "/tmp"},
		{"read", "/proc/" + strconv.Itoa(os.Getpid()) + "/environ"},
		{"read memory", strconv.Itoa(os.Getpid())},
		{"signal", strconv.Itoa(os.Getpid())},
		{"signal threads", strconv.Itoa(os.Getpid())},
		{"environment of threads", strconv.Itoa(os.Getpid())},
		{"memory of threads", strconv.Itoa(os.Getpid())},
		{"pidfd signal", p.victim},
		{"ptrace", p.victim},
		{"trace threads", p.victim},
		{"renice", p.victim},
		{"limit", p.victim},
		{"dial tcp", p.tcp},
		{"dial udp", p.udp},
		{"dial unix", p.unix},
		{"dial abstract", p.abstract},
		{"listen", "127.0.0.1:0"},
		{"bind unix", "own.sock"},
		{"datagram pair", ""},
		{"kill", p.victim},
		{"attach memory", p.ipc.memory},
		{"find memory", p.ipc.key},
		{"find queue", p.ipc.key},
		{"send to queue", p.ipc.queue},
		{"find semaphores", p.ipc.key},
		{"add semaphores", p.ipc.semaphores},
		{"add semaphores in time", p.ipc.semaphores},
	} {
		through, said := p.try(t, r, p.sandbox(), tc.attack, tc.target)
		assert.True(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
}

func TestWhatASandboxLetsThrough(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}})
	for _, tc := range []attempt{
		{"read", filepath.Join(p.root, "src", "main.go")},
		{"list", p.root},
		{"list", filepath.Join(p.root, "src")},
		{"write", "file"},
		{"mkdir", "folder"},
		{"truncate", "file"},
		{"move away", "file"},
		{"hard link", "moved"},
		{"remove", "moved"},
		{"read", "/etc/passwd"},
		{"read", "/proc/self/status"},
		{"read", "/proc/cpuinfo"},
		{"write", "/dev/null"},
		{"read", os.Args[0]},
	} {
		through, said := p.try(t, r, p.sandbox(), tc.attack, tc.target)
		assert.True(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
	open := p.sandbox()
	open.Network = true
	for _, tc := range []attempt{{"dial tcp", p.tcp}, {"dial udp", p.udp}, {"listen", "127.0.0.1:0"}} {
		through, said := p.try(t, r, open, tc.attack, tc.target)
		assert.True(t, through, "with a network: %s: %s", tc.attack, said)
	}
	for _, tc := range []attempt{{"dial unix", p.unix}, {"dial abstract", p.abstract}, {"raw socket", ""}} {
		through, said := p.try(t, r, open, tc.attack, tc.target)
		assert.False(t, through, "with a network: %s: %s", tc.attack, said)
	}
}

// Paths that one command hides are inaccessible for it, except the places that it names below. Another command of the
// same runner can access them.
func TestHiddenFromOneCommand(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	other := filepath.Join(p.root, "Working", "OTHER")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "file"), []byte("canary"), 0o600))
	hiding := p.sandbox()
	hiding.Hidden = []string{filepath.Join(p.root, "Working"), filepath.Join(p.root, "src", "main.go"), filepath.Join(p.root, "new")}
	for _, target := range []string{filepath.Join(other, "file"), filepath.Join(p.root, "src", "main.go")} {
		for _, attack := range []string{"read", "read by link", "hard link", "move away"} {
			through, said := p.try(t, r, hiding, attack, target)
			assert.False(t, through, "%s %s: %s", attack, target, said)
		}
	}
	approved := hiding
	approved.Write = append(slices.Clone(hiding.Write), p.root)
	for _, name := range []string{"new", "src/main.go", "Working/OTHER/file", "Working/new"} {
		through, said := p.try(t, r, approved, "write", filepath.Join(p.root, name))
		assert.False(t, through, "write %s: %s", name, said)
	}
	through, said := p.try(t, r, hiding, "write", "file")
	assert.True(t, through, "the workspace lies below what is hidden: %s", said)
	through, said = p.try(t, r, p.sandbox(), "read", filepath.Join(other, "file"))
	assert.True(t, through, "another command: %s", said)
}

// A folder with a hidden folder in it gets new entries when it may be written, and the hidden one stays out of reach: by its name, by a
// way back, by other processes, and as something to move.
func TestWritesBesideWhatIsHidden(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	other := filepath.Join(p.root, "Working", "OTHER")
	require.NoError(t, os.Mkdir(other, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, "file"), []byte("canary"), 0o600))
	s := p.sandbox()
	s.Write, s.Hidden = append(s.Write, p.root), []string{filepath.Join(p.root, "Working")}
	for _, tc := range []attempt{{"write", "new.txt"}, {"mkdir", "folder"}, {"write", "folder/x"}} {
		through, said := p.try(t, r, s, tc.attack, filepath.Join(p.root, tc.target))
		assert.True(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
	inside := filepath.Join(other, "file")
	for _, tc := range []attempt{
		{"read", inside},
		{"write", inside},
		{"hard link", inside},
		{"read by link", inside},
		{"move away", other},
		{"move away", filepath.Dir(other)},
		{"write", filepath.Join(p.root, "Working", "new")},
		{"read", fmt.Sprintf("/proc/%d/root%s", os.Getpid(), inside)},
		{"read", filepath.Join(p.root, "folder", "..", "Working", "OTHER", "file")},
	} {
		through, said := p.try(t, r, s, tc.attack, tc.target)
		assert.False(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
	through, said := p.try(t, r, s, "write", "file")
	assert.True(t, through, "the workspace lies below what is hidden: %s", said)
}

// Paths of Keep are neither changed nor moved, even if the folder that contains them is moved; everything else below
// can be changed.
func TestKeptBelowWhatIsWritten(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	for _, name := range []string{".git/hooks/pre-commit", ".git/config", ".git/index", "new.txt"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(p.root, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(p.root, name), []byte("as it was"), 0o600))
	}
	open := p.sandbox()
	open.Write = append(open.Write, p.root)
	open.Keep = []string{filepath.Join(p.root, ".git", "hooks"), filepath.Join(p.root, ".git", "config"), filepath.Join(p.root, "nothing")}
	for _, tc := range []attempt{
		{"write", ".git/hooks/pre-commit"},
		{"write", ".git/hooks/post-commit"},
		{"truncate", ".git/config"},
		{"move away", ".git/config"},
		{"remove", ".git/config"},
		{"move away", ".git/hooks"},
		{"move away", ".git"},
	} {
		through, said := p.try(t, r, open, tc.attack, filepath.Join(p.root, tc.target))
		assert.False(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
	for _, tc := range []attempt{{"read", ".git/hooks/pre-commit"}, {"read", ".git/config"}, {"write", ".git/index"}, {"write", "top.txt"}, {"remove", "new.txt"}, {"write", ".git/COMMIT_EDITMSG"}} {
		through, said := p.try(t, r, open, tc.attack, filepath.Join(p.root, tc.target))
		assert.True(t, through, "%s %s: %s", tc.attack, tc.target, said)
	}
}

func TestLoopbackIsItsOwn(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	s := p.sandbox()
	s.Loopback = true
	through, said := p.try(t, r, s, "listen", "127.0.0.1:0")
	assert.Equal(t, proc.Probe().Loopback, through, said)
	for _, tc := range []attempt{
		{"dial tcp", p.tcp}, {"dial unix", p.unix}, {"dial abstract", p.abstract}, {"join network", strconv.Itoa(os.Getpid())},
	} {
		through, said := p.try(t, r, s, tc.attack, tc.target)
		assert.False(t, through, "%s: %s", tc.attack, said)
	}
}

// A process that leaves the session of its call stays confined.
func TestEscapeeStaysConfined(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Hidden: []string{p.data}})
	c := bash("setsid bash -c 'cat " + p.secret + "; kill -0 " + p.victim + "; echo over' >seen 2>&1 </dev/null & wait")
	c.Dir, c.Sandbox = p.workspace, p.sandbox()
	_, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	seen, err := os.ReadFile(filepath.Join(p.workspace, "seen"))
	require.NoError(t, err)
	assert.Contains(t, string(seen), "over")
	assert.Regexp(t, "Permission denied|No such file", string(seen))
	assert.Contains(t, string(seen), "not permitted")
	assert.NotContains(t, string(seen), "canary")
}

// A child that replaces a folder by a link must not extend the access of the next child.
func TestSwappedFolderIsRefused(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	require.NoError(t, os.RemoveAll(p.workspace))
	require.NoError(t, os.Symlink(p.outside, p.workspace))
	c := bash("echo owned >" + filepath.Join(p.outside, "new"))
	c.Sandbox = p.sandbox()
	_, err := r.Run(t.Context(), c)
	assert.Equal(t, fault.OutsideRoot, fault.CodeOf(err))
	assert.Equal(t, "sandbox", fault.From(err).Field)
	assert.NoFileExists(t, filepath.Join(p.outside, "new"))
}

func TestLimitsOfAChild(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{Limits: proc.Limits{Processes: 999, FileSize: 1 << 20, Memory: 1 << 30}})
	c := bash("until [ $(ulimit -f) = 1024 ] && [ $(ulimit -d) = 1048576 ] && [ $(ulimit -u) = 999 ]; do :; done; ulimit -c; head -c 3000000 /dev/zero >big; stat -c %s big")
	c.Dir, c.Sandbox = p.workspace, p.sandbox()
	res, err := r.Run(t.Context(), c)
	require.NoError(t, err)
	assert.Equal(t, "0\n1048576\n", res.Stdout, res.Stderr)
}

func TestRunsAsUsual(t *testing.T) {
	t.Parallel()
	p := newPrey(t)
	r := newRunner(t, proc.Config{})
	for name, script := range map[string]string{
		"pipes":   "echo b a | tr ' ' '\\n' | sort | head -1 | grep -q a && cat <(echo x) >/dev/stdout && : 2>/dev/stderr",
		"files":   "mkdir -p a/b && echo x >a/f && mv a/f a/b/g && ln a/b/g h && ln -s h i && cp -a a c && tar cf t.tar a && tar xf t.tar && chmod 700 a && rm -r a",
		"git":     "git init -q . && echo x >f && git -c user.name=a -c user.email=a@b add . && git -c user.name=a -c user.email=a@b commit -qm x && git status --short && git log --oneline | grep -q x",
		"python3": "python3 -c 'import json, subprocess, tempfile, asyncio; asyncio.run(asyncio.sleep(0)); print(subprocess.check_output([\"echo\", \"ok\"]))'",
		"node":    "node -e 'const c = require(\"child_process\"); require(\"fs\").writeFileSync(\"f.js\", \"process.send(1)\"); c.fork(\"f.js\").on(\"message\", () => console.log(c.execSync(\"echo ok\").toString()))'",
		"users":   "id -un && ls -la / 2>&1 | grep -q denied",
		"time":    "date && TZ=Europe/Berlin date && locale >/dev/null",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "python3" || name == "node" {
				need.Program(t, name)
			}
			c := bash("set -e; mkdir -p " + name + "; cd " + name + "; " + script)
			c.Dir, c.Sandbox, c.Env = p.workspace, p.sandbox(), map[string]string{"HOME": p.workspace, "TMPDIR": p.workspace}
			res, err := r.Run(t.Context(), c)
			require.NoError(t, err)
			assert.Zero(t, res.ExitCode, res.Stdout+res.Stderr)
		})
	}
}

// BenchmarkRun starts /bin/true: the cost of the confinement is the difference to "off".
func BenchmarkRun(b *testing.B) {
	dir := b.TempDir()
	for _, bc := range []struct {
		name string
		mode proc.Mode
		box  proc.Sandbox
	}{
		{"off", proc.Off, proc.Sandbox{}},
		{"enforce", proc.Enforce, proc.Sandbox{Read: []string{dir}, Write: []string{dir}}},
		{"loopback", proc.Enforce, proc.Sandbox{Read: []string{dir}, Write: []string{dir}, Loopback: true}},
	} {
		b.Run(bc.name, func(b *testing.B) {
			r, err := proc.New(proc.Config{Sandbox: bc.mode, Hidden: []string{"/root/.orch"}})
			require.NoError(b, err)
			b.Cleanup(func() { _ = r.Close() })
			for b.Loop() {
				res, err := r.Run(b.Context(), proc.Command{Name: "true", Dir: dir, Sandbox: bc.box})
				require.NoError(b, err)
				require.Zero(b, res.ExitCode)
			}
		})
	}
}
