package node

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
)

// ReadRules reads a policy file. It returns nil for an empty path. It does not run the examples in the file. Errors are
// NOT_FOUND, FORBIDDEN, and those of policy.ParseRules.
func ReadRules(path string) (*policy.Rules, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no rules are a valid policy
	}
	path = pathguard.Real(path) // the rules protect the file at this path from changes
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
