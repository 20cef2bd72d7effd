package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/orchestrator"
)

// exports returns what the owner of tasks needs to make export files.
func (n *Node) exports() orchestrator.Exports {
	return orchestrator.Exports{
		Version: n.cfg.Version, Key: n.store.ExportKey,
		Spool: func() (orchestrator.Spool, error) { return newSpool(n.cfg.DataDir) },
		FindSecret: func() func([]byte) (string, bool) {
			return findConfigured(n.cfg.Tools.SecretsAllow, n.executor.findSecret)
		},
	}
}

// newSpool returns a temporary file that has no name, so that nothing of it stays after a crash.
func newSpool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".export-*")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "no temporary file can be made")
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, fault.Wrap(fault.Unavailable, errors.Join(err, f.Close()), "the temporary file keeps its name")
	}
	return f, nil
}

// findConfigured returns a function that finds the secrets that plans may use, in any of their forms, and whatever find finds.
func findConfigured(patterns []string, find func([]byte) (string, bool)) func([]byte) (string, bool) {
	set := secret.NewSet(configuredSecrets(patterns))
	return func(data []byte) (string, bool) {
		if _, found := set.Redact(data); found {
			return "one that plans may use", true
		}
		return find(data)
	}
}

// configuredSecrets returns the values of all sources that the patterns allow and that exist, by source.
func configuredSecrets(patterns []string) map[string]string {
	values := map[string]string{}
	add := func(source string) {
		if text, err := secret.Read(source, patterns); err == nil { // a source that cannot be read was never used
			values[source] = text
		}
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		add("env:" + name)
	}
	for _, pattern := range patterns {
		if path, ok := strings.CutPrefix(pattern, "file:"); ok {
			files, _ := filepath.Glob(path) // the patterns are valid
			for _, file := range files {
				add("file:" + file)
			}
		}
	}
	return values
}
