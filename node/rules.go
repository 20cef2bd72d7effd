package node

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
)

// ReadRules reads a policy file, none for an empty path. Its examples are not tried. Errors: NOT_FOUND,
// FORBIDDEN, and those of policy.ParseRules.
func ReadRules(path string) (*policy.Rules, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no rules are a policy, too
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // the one to protect from changes
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "there is no policy file %s", path).WithField("policy")
	case err != nil:
		return nil, fault.New(fault.Forbidden, "cannot read the policy file %s: %w", path, err).WithField("policy")
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, policy.MaxRulesFile+1))
	if err != nil {
		return nil, fault.New(fault.Forbidden, "cannot read the policy file %s: %w", path, err).WithField("policy")
	}
	return policy.ParseRules(path, src)
}
