package shell_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/classify/shell"
)

const workspace = "/root/Working/TASK_01JD0000000000000000000000"

func shellContext() shell.Context {
	return shell.Context{Dir: workspace + "/workspace", Workspace: workspace}
}

// commandTable reads a file with a command on each line. ⏎ is replaced by a line break and WORKSPACE by the path of the
// workspace.
func commandTable(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/commands/" + name + ".txt")
	require.NoError(t, err)
	text := strings.ReplaceAll(strings.TrimSpace(string(data)), "WORKSPACE", workspace)
	commands := strings.Split(text, "\n")
	for i, command := range commands {
		commands[i] = strings.ReplaceAll(command, "⏎", "\n")
	}
	return commands
}

// S0-083, A-29: each command of the table runs unasked, but for one of a hundred at most.
func TestHarmless(t *testing.T) {
	t.Parallel()
	commands := commandTable(t, "harmless")
	for _, command := range commands {
		class := shell.Classify(command, shellContext())
		assert.False(t, class.Destructive || class.Interactive, "%s: %s", command, class.Reason)
		assert.Empty(t, class.Reason, command)
	}
	assert.GreaterOrEqual(t, len(commands), 250)
	// Harmless commands that are classified as destructive; at most one of a hundred.
	cautious := commandTable(t, "cautious")
	for _, command := range cautious {
		assert.True(t, shell.Classify(command, shellContext()).Destructive, "%s belongs to the harmless ones", command)
	}
	all := len(commands) + len(cautious)
	assert.LessOrEqual(t, len(cautious)*100, all)
	documented(t, fmt.Sprintf("| shell commands, by class | %d | 0 | %d | %d (%.1f %%) |",
		len(commandTable(t, "destructive")), all, len(cautious), float64(len(cautious))*100/float64(all)))
}

// S0-083, A-29: each command of the table is destructive, and says why.
func TestDestructive(t *testing.T) {
	t.Parallel()
	commands := commandTable(t, "destructive")
	for _, command := range commands {
		class := shell.Classify(command, shellContext())
		assert.True(t, class.Destructive, command)
		assert.NotEmpty(t, class.Reason, command)
	}
	assert.GreaterOrEqual(t, len(commands), 450)
}

// S0-084, A-30: each command of the table waits for a person.
func TestInteractive(t *testing.T) {
	t.Parallel()
	for _, command := range commandTable(t, "interactive") {
		assert.True(t, shell.Classify(command, shellContext()).Interactive, command)
	}
	for _, command := range []string{"python3 --version", "vim --version", "echo 1 | python3", "python3 <<EOF\n1\nEOF", "git commit -m x", "echo vi", "read x"} {
		assert.False(t, shell.Classify(command, shellContext()).Interactive, command)
	}
}

func TestOutsideTheWorkspaceNothingIsWritten(t *testing.T) {
	t.Parallel()
	c := shell.Context{Dir: "/root/project", Workspace: workspace}
	for _, command := range []string{"touch x", "echo x > y", "git add a", "git commit -m x", "gofmt -w a.go", "go mod tidy"} {
		assert.True(t, shell.Classify(command, c).Destructive, command)
	}
	for _, command := range []string{"ls", "go test ./...", "make test", "echo x > " + workspace + "/outputs/y", "git log"} {
		assert.False(t, shell.Classify(command, c).Destructive, command)
	}
	assert.True(t, shell.Classify("echo > x", shell.Context{}).Destructive, "without a workspace nothing is inside")
}

func FuzzClassify(f *testing.F) {
	for _, seed := range []string{"ls | wc", "sh -c 'eval \"ls\"'", "sed 's/a/b/'", "awk '/x/{print}'", "f() { f; }; f", "git -C a log", "a=$((1))", "coproc ls"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, command string) {
		begin := time.Now()
		class := shell.Classify(command, shellContext())
		assert.Equal(t, class.Destructive || class.Interactive, class.Reason != "")
		assert.Less(t, time.Since(begin), 30*time.Second)
		// Further text cannot make a command harmless again.
		if class.Destructive && shell.Classify(command+"\n", shellContext()).Destructive {
			assert.True(t, shell.Classify(command+"\nrm a", shellContext()).Destructive)
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	for b.Loop() {
		shell.Classify("cd sub && go test ./... 2>&1 | tee out.txt | grep -v ok", shellContext())
	}
}

// A command with exponentially many nested commands is classified as destructive in bounded time.
func TestClassifyIsBounded(t *testing.T) {
	t.Parallel()
	for _, command := range []string{strings.Repeat("find -exec ", 5000) + "x", strings.Repeat("find . -exec env ", 40) + "ls"} {
		class := shell.Classify(command, shell.Context{Dir: workspace, Workspace: workspace})
		assert.True(t, class.Destructive)
		assert.Equal(t, "too many commands start each other", class.Reason, "without the bound this would not end")
	}
}

// TestVariablesOfTheCaller checks that a variable set by the caller counts like one set by the command.
func TestVariablesOfTheCaller(t *testing.T) {
	t.Parallel()
	where := shell.Context{Dir: "/w/workspace", Workspace: "/w"}
	for _, test := range []struct {
		command, variable string
		destructive       bool
	}{
		{`echo "$X" "$1" "$@"`, "X", false},
		{`sh -c 'echo "$X"'`, "X", false},
		{"ls", "PATH", true},
		{"ls", "LD_PRELOAD", true},
		{"git log", "GIT_EXTERNAL_DIFF", true},
		{"true", "BASH_ENV", true},
		{"echo $((X))", "X", true},
		{"sh -c 'echo $((X))'", "X", true},
		{"echo $((1 + 1))", "X", false},
		{`"$X" file`, "X", true},
		{`"$1" file`, "X", true},
	} {
		in := where
		in.Env = []string{test.variable}
		assert.Equal(t, test.destructive, shell.Classify(test.command, in).Destructive, "%s=… %s", test.variable, test.command)
	}
}
