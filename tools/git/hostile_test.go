package git_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// hostileNames are not names of remotes, and except for some that are valid for branches not names of branches.
func hostileNames() []string {
	names := []string{
		"-x", "--upload-pack=x", "--receive-pack=touch x", "--exec=touch x", "--all", "--mirror", "--delete", "-d", "-f", "--force", "--tags", "--prune",
		"-c", "-ccore.sshCommand=x", "--", "-", "--repo=/tmp", "--push-option=x", "-o", "-u", "--no-verify", "--signed", "ext::sh -c x", "ext::x", "fd::17",
		"fd::17/x", "file:///etc", "/etc", "../remote.git", ".", "..", "./x", "~/x", "https://example.com/x", "git@example.com:x", "ssh://-oProxyCommand=x/y",
		"a b", "a\nb", "a\tb", "a\x01b", "a\x7fb", "a:b", ":main", "main:main", "+main", "+main:main", "HEAD:main", "*", "a*", "a?", "a[b]", "^main", "a^", "a~1",
		"a..b", "a...b", "main..", "@{u}", "main@{1}", "a@{b", "refs/heads/*:refs/heads/*", "refs/heads/main:refs/heads/x", `a\b`, "$(touch x)", "`touch x`",
		"a;b", "a|b", "a'b", `a"b`, "a<b", "a>b", "a(b)", "\u202emain", "\u200bmain", "ma\x00in", "\xff", "a//b/..", "/main", "main/", "heads//x", ".main", "x/.y",
		"x.lock", "x.lock/y", "x.", "x/", strings.Repeat("a", 300), "transport::x", "::", "a::b", "persistent-https::x", "%(x)", "{a,b}",
	}
	return names
}

// hostileAddresses are rejected in every setting of a remote.
func hostileAddresses(outside string) []string {
	return []string{
		"ext::sh -c touch%20mark", "ext::x", "EXT::x", "fd::0", "fd::17/x", "foo::bar", "file::/x", "https::x", "hg::https://x", "-x", "--upload-pack=x",
		"--receive-pack=touch mark", "-oProxyCommand=x", "ssh://-oProxyCommand=x/y", "ssh://-oProxyCommand=x@host/y", "ssh://host/x", "host:x", "user@host:x",
		"-oProxyCommand=x:y", "[host]:x", "[-oProxyCommand=x]:y", "host::x", "git://host/x", "git+ssh://host/x", "ssh+git://host/x", "http://host/x",
		"HTTP://host/x", "ftp://host/x", "ftps://host/x", "rsync://host/x", "ext://sh", "fd://0", "javascript://x", "data://x", "https:///x", "https://", "https://-x/y",
		"https://user:pass@host/x", "https://:pass@host/x", "https://host/x?y", "https://host/x#y", "https://ho st/x", "https://h$(x)/y", "https://%2dx/y",
		"https://host:port/x", "https://host:-1/x", "https://ho\nst/x", "https://host/\x1b", "file://host/x", "file://user@/x", "file:///etc", "file:///",
		"file://" + outside, outside, outside + "/", "/", "/etc", "/proc/self/root" + outside, "../../../../../../../../../../../../etc", "\t/x", "\n", "out", "out/", "./out", "sub/../out",
		"https://2130706433/x", "https://0x7f.1/x", "https://127.1/x", "https://0177.0.0.1/x", "https://1/x",
		"gitfile", "commondir", "nested", "file:///etc/../etc", "file:%2f%2f/etc", "https:host/x", "ssh:host/x",
	}
}

// S0-109: a value that looks like an option, a URL, a path or a refspec is treated as data, and rejected.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	b.commits("c.txt")
	before := b.at(bare).git("for-each-ref")
	wrong := 0
	for _, name := range hostileNames() {
		for _, field := range []string{"remote", "branch"} {
			for _, force := range []bool{false, true} {
				_, err := b.push(map[string]any{field: name, "force": force})
				if !assert.Contains(t, []fault.Code{fault.InvalidFormat, fault.NotFound, fault.ValidationError}, fault.CodeOf(err), "%s %q: %v", field, name, err) {
					wrong++
				}
			}
		}
	}
	assert.Zero(t, wrong)
	assert.Equal(t, before, b.at(bare).git("for-each-ref"))
	assert.GreaterOrEqual(t, 2*len(hostileNames())+len(hostileAddresses("")), 150)
}

// S0-109: addresses in the configuration.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	b.commits("c.txt")
	outside := newRepo(t)
	require.NoError(t, os.Symlink(outside.repo, filepath.Join(b.repo, "out")))
	gitDir := filepath.Join(outside.repo, ".git")
	b.write("gitfile/.git", "gitdir: "+gitDir+"\n")
	nested := filepath.Join(b.repo, "nested")
	b.git("init", "-q", "--bare", nested)
	b.write("nested/.git", "gitdir: "+gitDir+"\n")
	b.git("init", "-q", "--bare", filepath.Join(b.repo, "commondir"))
	b.write("commondir/commondir", gitDir+"\n")
	before, there := b.at(bare).git("for-each-ref"), outside.git("for-each-ref")
	config, err := os.ReadFile(filepath.Join(b.repo, ".git", "config"))
	require.NoError(t, err)
	for _, address := range hostileAddresses(outside.repo) {
		for _, key := range []string{"url", "pushurl"} {
			b.write(".git/config", string(config))
			b.git("config", "remote.origin."+key, address)
			_, err := b.push(map[string]any{"force": true})
			assert.Contains(t, []fault.Code{fault.Forbidden, fault.OutsideRoot, fault.InvalidFormat, fault.NetworkError}, fault.CodeOf(err), "%s %q: %v", key, address, err)
			if fault.Has(err, fault.NetworkError) {
				assert.NotContains(t, address, "host", "%q was tried", address)
			}
			_, err = b.intent(map[string]any{})
			require.Error(t, err, address)
			assert.NotContains(t, err.Error(), "pass@")
		}
	}
	assert.Equal(t, before, b.at(bare).git("for-each-ref"))
	assert.Equal(t, there, outside.git("for-each-ref"))
	assert.NoFileExists(t, filepath.Join(b.repo, "mark"))
}

// hostileSettings are settings of a repository that would run a program or push elsewhere.
func hostileSettings(run, bare, other string) [][2]string {
	return [][2]string{
		{"core.fsmonitor", run},
		{"core.pager", run},
		{"core.editor", run},
		{"sequence.editor", run},
		{"core.sshCommand", run},
		{"core.gitProxy", run},
		{"core.askPass", run},
		{"core.alternateRefsCommand", run},
		{"core.excludesFile", "/etc/passwd"},
		{"diff.external", run},
		{"diff.evil.textconv", run},
		{"diff.evil.command", run},
		{"filter.evil.clean", run},
		{"filter.evil.process", run},
		{"filter.evil.required", "true"},
		{"merge.evil.driver", run},
		{"alias.add", "!" + run},
		{"alias.commit", "!" + run},
		{"alias.push", "!" + run},
		{"alias.init", "!" + run},
		{"commit.gpgSign", "true"},
		{"gpg.program", run},
		{"gpg.ssh.program", run},
		{"gpg.ssh.defaultKeyCommand", run},
		{"tag.gpgSign", "true"},
		{"push.gpgSign", "true"},
		{"push.pushOption", "x"},
		{"push.followTags", "true"},
		{"push.recurseSubmodules", "on-demand"},
		{"push.default", "matching"},
		{"commit.template", "/etc/passwd"},
		{"commit.cleanup", "strip"},
		{"commit.verbose", "true"},
		{"remote.origin.receivepack", run},
		{"remote.origin.uploadpack", run},
		{"remote.origin.vcs", "ext"},
		{"remote.origin.mirror", "true"},
		{"remote.origin.push", "+refs/heads/*:refs/heads/*"},
		{"remote.origin.proxy", "http://127.0.0.1:1"},
		{"remote.pushDefault", "evil"},
		{"branch.main.pushRemote", "evil"},
		{"branch.main.remote", "evil"},
		{"remote.evil.url", other},
		{"url." + other + ".insteadOf", bare},
		{"url." + other + ".pushInsteadOf", bare},
		{"credential.helper", "!" + run},
		{"credential.https://x.helper", "!" + run},
		{"http.proxy", "http://127.0.0.1:1"},
		{"protocol.ext.allow", "always"},
		{"protocol.allow", "always"},
		{"uploadpack.packObjectsHook", run},
		{"receive.procReceiveRefs", "refs"},
		{"submodule.recurse", "true"},
		{"trailer.x.command", run},
		{"trailer.x.cmd", run},
		{"interactive.diffFilter", run},
		{"gc.auto", "1"},
		{"maintenance.auto", "true"},
		{"core.splitIndex", "true"},
		{"core.untrackedCache", "true"},
		{"index.sparse", "true"},
		{"browser.x.cmd", run},
		{"man.x.cmd", run},
		{"core.logAllRefUpdates", "always"},
		{"color.ui", "always"},
		{"advice.statusHints", "true"},
	}
}

// S0-109: adding, committing and pushing run none of the configured programs.
func TestHostileConfigurationOfWriters(t *testing.T) {
	t.Parallel()
	b, bare := withRemote(t)
	// The calls may only write in the repository and, for a push, in the remote.
	mark, far := filepath.Join(b.repo, ".git", "ran"), filepath.Join(bare, "ran")
	run := "touch " + mark + " " + far + "; false #"
	other := filepath.Join(b.repo, "other.git")
	b.git("init", "-q", "--bare", other)
	for _, setting := range hostileSettings(run, bare, other) {
		b.git("config", setting[0], setting[1])
	}
	hook := filepath.Join(b.repo, ".git", "hooks", "pre-push")
	require.NoError(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\n"+run+"\n"), 0o755))
	b.write(".git/info/attributes", "b.txt diff=evil merge=evil\n")
	b.write("b.txt", "changed\n")
	_, err := b.add("b.txt")
	require.NoError(t, err)
	_, err = b.commit("feat: b")
	require.NoError(t, err)
	out, err := b.push(map[string]any{})
	require.NoError(t, err)
	assert.Equal(t, out.CommitHash, strings.TrimSpace(b.at(bare).git("rev-parse", "main")))
	assert.NoFileExists(t, mark)
	assert.NoFileExists(t, far)
	assert.Empty(t, b.at(other).git("for-each-ref"))

	// A program that ran would have left its mark.
	require.NoError(t, os.Rename(hook, filepath.Join(filepath.Dir(hook), "pre-commit")))
	b.write("b.txt", "again\n")
	_, err = b.add("b.txt")
	require.NoError(t, err)
	_, err = b.commit("feat: b")
	assert.Equal(t, "HOOK_FAILED", reason(err))
	assert.FileExists(t, mark)
}

// Hooks of a repository that the task created in its workspace cannot write in the work tree of another one.
func TestWorkTreeOutsideOfTheWorkspace(t *testing.T) {
	t.Parallel()
	b := newWriter(t)
	root := b.env.Root.Name()
	b.at(root).git("init", "-q", "-b", "main")
	mark, own := filepath.Join(root, "ran"), b.at(filepath.Join(b.repo, "own"))
	require.NoError(t, os.Mkdir(own.repo, 0o755))
	own.git("init", "-q")
	own.git("config", "core.worktree", root)
	hook := filepath.Join(own.repo, ".git", "hooks", "pre-commit")
	require.NoError(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	b.at(root).write("a.txt", "a\n")
	own.git("add", filepath.Join(root, "a.txt"))
	b.at(root).git("add", "a.txt")

	_, err := call[committed](b, "GIT_COMMIT", map[string]any{"message": "feat: a", "repository_path": own.repo})
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)
	_, err = call[added](b, "GIT_ADD", map[string]any{"file_paths": []string{"a.txt"}, "repository_path": own.repo})
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err), "%v", err)
	assert.NoFileExists(t, mark)
}
