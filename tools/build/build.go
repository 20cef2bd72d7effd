// Package build is the family of tools that build software and install the packages that it needs
// (seed 000). Both work in the workspace of the task.
package build

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config configures the family. The zero value works: every manager asks its public registry.
type Config struct {
	// NPMRegistry is the URL of the registry of npm and yarn. Default: that of the manager.
	NPMRegistry string
	// PipIndex is the URL of the package index of pip. Default: that of pip.
	PipIndex string
	// CAFile has certificates of authorities, as PEM, that npm and yarn trust beside those of Node. Empty for none.
	CAFile string
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{buildExecute(), packageInstall(cfg)}
}

// The limits of the family.
const (
	// maxTime is how long a build or an installation may take.
	maxTime = 30 * time.Minute
	// maxManifest bounds a manifest that is read, in bytes.
	maxManifest = 4 << 20
	// maxMessages bounds the errors, the warnings and the artifacts of one result.
	maxMessages = 100
	// maxMessage bounds one message, in bytes.
	maxMessage = 4 << 10
)

// project is the directory that a call works in.
type project struct {
	env *tools.Env
	// dir is its absolute path.
	dir string
}

// newProject returns the project of a call that is about to run.
func newProject(env *tools.Env) (project, error) {
	dir, err := env.Root.ExistingDir(env.Start())
	if err != nil {
		return project{}, err
	}
	return project{env: env, dir: dir}, nil
}

// judgedProject returns the project of a call that is judged, when the workspace may not be there yet: it is empty then.
func judgedProject(env *tools.Env) (project, error) {
	rel, err := env.Root.Resolve(env.Start())
	if err != nil {
		return project{}, err
	}
	return project{env: env, dir: env.Root.Abs(rel)}, nil
}

// read returns the content of a file of the project, nil when there is none.
func (p project) read(name string) ([]byte, error) {
	rel, err := p.env.Root.Resolve(filepath.Join(p.dir, name))
	if err != nil {
		return nil, err
	}
	data, err := p.env.Root.ReadFile(rel, maxManifest)
	if fault.Has(err, fault.NotFound) {
		return nil, nil
	}
	return data, err
}

// olderThan reports whether all the named files that are there were last changed before a time. Programs can set the
// time of a modification, but not that of the change. In doubt they were not.
func (p project) olderThan(at time.Time, names []string) bool {
	const skew = time.Second // of the clock of a file system, which runs behind
	for _, name := range names {
		rel, err := p.env.Root.Resolve(filepath.Join(p.dir, name))
		if err != nil {
			return false
		}
		info, err := p.env.Root.Stat(rel)
		if fault.Has(err, fault.NotFound) {
			continue
		}
		if err != nil || at.IsZero() || !changedAt(info).Before(at.Add(-skew)) {
			return false
		}
	}
	return true
}

// has reports whether the project holds a file.
func (p project) has(name string) bool {
	rel, err := p.env.Root.Resolve(filepath.Join(p.dir, name))
	if err != nil {
		return false
	}
	_, err = p.env.Root.Stat(rel)
	return err == nil
}

// variables is what programs get beside the environment of the node: a home of their own.
func (p project) variables() (map[string]string, error) {
	temp := filepath.Join(p.env.Workspace, "temp")
	rel, err := p.env.Root.Resolve(temp)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"HOME": temp, "TMPDIR": temp, "CI": "1", "NO_COLOR": "1", "GIT_CEILING_DIRECTORIES": filepath.Dir(p.env.Workspace),
	}, p.env.Root.MkdirAll(rel, 0o755)
}

// shorten bounds a message and takes user names and passwords out of the URLs in it.
func shorten(s string) string {
	s = regexp.MustCompile(`://[^/\s@]*@`).ReplaceAllString(strings.TrimSpace(s), "://…@")
	if len(s) > maxMessage {
		s = "…" + strings.ToValidUTF8(s[len(s)-maxMessage:], "")
	}
	return s
}
