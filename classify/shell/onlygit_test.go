package shell_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/classify/shell"
)

func TestOnlyGit(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"git add -A && git commit -q -m 'fix: x'", "git checkout -b next; git push -u origin next 2>&1", "cd sub && git status >/dev/null || true",
		"git stash\ngit pull --rebase\ngit stash pop", "git init", "git rebase main", "git commit --amend --no-edit",
		"git commit -m \"$(cat <<'EOF'\nfix: x\n\nbody $(not run)\nEOF\n)\"", "git merge --no-ff --no-edit side", "git reset --hard HEAD~1", "git restore --staged a.txt",
	} {
		_, ok := shell.OnlyGit(script)
		assert.True(t, ok, script)
	}
	folder, _ := shell.OnlyGit("cd 'a b' && git status")
	assert.Equal(t, "a b", folder)
	for _, script := range []string{
		"", "make", "echo x", "git add -A && make", "git add $X", "git commit -m \"$(make)\"", "git commit -m \"$(cat <<EOF\n$(make)\nEOF\n)\"", "git log | head",
		"git -c core.fsmonitor=./e.sh status", "git --exec-path=. status", "GIT_DIR=fake git status", "git diff --output=.git/commondir", "git log --outp=.git/commondir",
		"git rebase -x make main", "git rebase -xmake main", "git rebase --exec=make", "git clone a b", "git config core.fsmonitor ./e.sh", "git worktree add x",
		"git submodule update", "git add . &", "git status > .git/commondir", "git fetch --upload-pack=./e.sh", "git apply --build-fake-ancestor=.git/commondir x",
		"git bisect run make", "f() { git status; }; f", "if true; then git status; fi", "(git status)", "git", "git\\\nx", "./git status", "git commit -m \"$(cat <<'EOF' >.git/commondir\nx\nEOF\n)\"",
		"git init --template=t", "git -C sub status", "git status && cd sub && git commit -m x", "cd sub; cd ..; git status", "cd -; git status", "cd; git status", "git commit -m x -e", "! git ~/x", "git add {a,b}", "git add *",
	} {
		_, ok := shell.OnlyGit(script)
		assert.False(t, ok, script)
	}
}
