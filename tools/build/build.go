// Package build is the family of tools that build software and install packages (S0 rules). Both tools work in the
// starting directory of the call (tools.Env.Start).
package build

import (
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Config configures the family. With the zero value every manager uses its public registry.
type Config struct {
	// NPMRegistry is the URL of the registry for npm and yarn. Default: the default of npm or yarn.
	NPMRegistry string
	// PipIndex is the URL of the package index for pip. Default: the default of pip.
	PipIndex string
	// CAFile is a PEM file with certificate authorities that npm and yarn trust besides those of Node.js. Empty for
	// none.
	CAFile string
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{buildExecute(), packageInstall(cfg)}
}

// The limits of the family.
const (
	// maxTime is the time limit of a build or an installation.
	maxTime = 30 * time.Minute
	// maxManifest limits the size of a manifest in bytes.
	maxManifest = 4 << 20
	// maxMessages limits the number of errors, warnings and artifacts in one result.
	maxMessages = 100
	// maxMessage limits the size of one message in bytes.
	maxMessage = 4 << 10
)

// project is the directory in which a call works.
type project struct {
	env *tools.Env
	// dir is its absolute path.
	dir string
}

// newProject returns the project of a running call. Its directory must exist.
func newProject(env *tools.Env) (project, error) {
	dir, err := env.Root.ExistingDir(env.Start())
	if err != nil {
		return project{}, err
	}
	return project{env: env, dir: dir}, nil
}

// intentProject returns the project of a call that the policy is checking. Its directory need not exist.
func intentProject(env *tools.Env) (project, error) {
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

// olderThan reports whether all existing files among names last changed before the time at. It uses the change time of
// the inode, because programs can set the modification time. When in doubt it returns false.
func (p project) olderThan(at time.Time, names []string) bool {
	const skew = time.Second // file systems take times from a coarse clock, which lags behind
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

// has reports whether the project contains a file.
func (p project) has(name string) bool {
	rel, err := p.env.Root.Resolve(filepath.Join(p.dir, name))
	if err != nil {
		return false
	}
	_, err = p.env.Root.Stat(rel)
	return err == nil
}

// variables returns the environment variables of programs, in addition to those of the node. It creates the temporary
// directory, which is also the home directory of the programs.
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

// shorten keeps the end of a long message. It removes user names and passwords from URLs.
func shorten(s string) string {
	s = regexp.MustCompile(`://[^/\s@]*@`).ReplaceAllString(strings.TrimSpace(s), "://…@")
	if len(s) > maxMessage {
		s = "…" + strings.ToValidUTF8(s[len(s)-maxMessage:], "")
	}
	return s
}
