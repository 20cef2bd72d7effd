package node_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Programs of the user's own folders are found, before those of the system.
func TestProgramPath(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	bin := t.TempDir()
	for name, says := range map[string]string{"cargo": "own cargo", "uname": "own uname"} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho "+says+"\n"), 0o755))
	}
	cfg.Confinement.ProgramPath, cfg.Extra = []string{bin}, []tools.Tool{attack()}
	n := start(t, cfg)
	shell := run(t, n.API(), `{orch: v1, steps: [{id: a, tool: ATTACK, with: {script: "cargo; uname"}}], outputs: {all: "${{ steps.a.output.said }}"}}`)
	require.Equal(t, statemachine.Done, shell.State, shell.Error)
	assert.Contains(t, string(shell.Output), `own cargo\nown uname`)
}

// A folder in which tasks write could put a program in the place of one of the system.
func TestProgramPathWhereTasksWrite(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(cfg *node.Config) string{
		"in the root":          func(cfg *node.Config) string { return filepath.Join(cfg.Root, "bin") },
		"in a writable folder": func(cfg *node.Config) string { return filepath.Join(cfg.Confinement.SandboxWrite[0], "bin") },
		"behind a link": func(cfg *node.Config) string {
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(cfg.Root, link))
			return filepath.Join(link, "bin")
		},
		"nowhere": func(cfg *node.Config) string { return filepath.Join(cfg.Confinement.SandboxWrite[0], "gone") },
	} {
		cfg := config(t)
		cfg.Confinement.SandboxWrite = []string{t.TempDir()}
		for _, dir := range []string{cfg.Root, cfg.Confinement.SandboxWrite[0]} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o755))
		}
		cfg.Confinement.ProgramPath = []string{where(&cfg)}
		_, err := node.Start(t.Context(), cfg)
		assert.True(t, fault.Has(err, fault.ValidationError), name)
		assert.Equal(t, "program_path", fault.From(err).Field, name)
	}
}
