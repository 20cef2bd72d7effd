package main

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// exitPage returns the page about exit codes, generated from the table of the program.
func exitPage() string {
	var b strings.Builder
	b.WriteString("# Exit codes\n\n<!-- Generated from cmd/orch/exit.go by its tests. Do not edit; run `go test ./cmd/orch -run ExitCodes -update`. -->\n\n" +
		"This page is for authors of scripts. It says what each exit code of `orch` means, and which errors lead to it; `orch help exit-codes` prints\n" +
		"the same.\n\n" +
		"A command that waits for a task ends with the outcome of the task. The errors are the names behind the message, and `name` of the JSON on\n" +
		"stderr (`-o json`).\n\n" +
		"Without a terminal `orch submit`, `agent ask`, `watch`, `result`, `retry`, `redrive`, `plan run` and `tools call` end with 9 as soon as their\n" +
		"task waits for a person (an approval, an answer, a message to an agent, a decision about a call in doubt) and nothing else of it moves. They\n" +
		"say what to do, and who may. The task is kept. `--approval-wait 30m` waits that long, if somebody can still decide; on a terminal they wait\n" +
		"for ever. They also wait for a task that continues without a decision (an `on_expiry` other than `block` and `escalate`).\n\n" +
		"| exit code | meaning | errors |\n|---|---|---|\n")
	for _, row := range exits() {
		b.WriteString("| " + strconv.Itoa(row.exit) + " | " + row.meaning + " | " + strings.ReplaceAll(joinCodes(row.codes), " ", ", ") + " |\n")
	}
	return b.String()
}

// Every error has its exit code, and the page says which.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	const page = "../../docs/reference/exit-codes.md"
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(exitPage()), 0o600))
	}
	written, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, exitPage(), string(written), "run the test with -update")
	seen := map[fault.Code]bool{}
	for _, row := range exits() {
		for _, code := range row.codes {
			assert.False(t, seen[code], "%s stands twice", code)
			seen[code] = true
		}
	}
	for _, e := range fault.Registry() {
		assert.True(t, seen[e.Code], "%s has no exit code", e.Code)
	}
}
