package worker

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/policy"
)

// maxProgram limits the bytes of a user's own program (OwnProgram).
const maxProgram = 16 << 20

// program returns the user's own program that a call runs, with the hash of its current content. It is zero if the call runs no
// such program. It is also zero if the plan names no programs and the call belongs to no session: then nobody can have allowed
// the program.
func (x *executor) program(a *attempt) events.Program {
	if len(a.policyCall.Allow.Programs) == 0 && len(a.policyCall.Project) == 0 {
		return events.Program{}
	}
	name, ok := policy.OwnProgram(&a.policyCall)
	if !ok {
		return events.Program{}
	}
	p, err := OwnProgram(a.root, filepath.Dir(a.policyCall.Workspace), name)
	if err != nil {
		return events.Program{} // the program needs approval like any other program
	}
	return p
}

// OwnProgram returns a user's own program by its absolute path, with the hash of its content. The program must be a file below
// the root and outside the folder working: the programs of tasks could change a file in there at any time (FORBIDDEN). A
// program of more than maxProgram bytes is a VALIDATION_ERROR.
func OwnProgram(root *pathguard.Root, working, name string) (events.Program, error) {
	rel, err := root.Resolve(name)
	if err != nil {
		return events.Program{}, err
	}
	path := root.Abs(rel)
	if below(filepath.Clean(name), working) || below(path, working) {
		return events.Program{}, fault.New(fault.Forbidden, "%s lies in the workspace of a task, whose programs can change it", name)
	}
	f, err := root.Open(rel)
	if err != nil {
		return events.Program{}, err
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(f, maxProgram+1))
	switch {
	case err != nil:
		return events.Program{}, fault.Wrap(fault.Internal, err, "the program cannot be read")
	case n > maxProgram:
		return events.Program{}, fault.New(fault.ValidationError, "%s has more than %d MiB", name, maxProgram>>20).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	return events.Program{Path: path, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// below reports whether a path is a directory or inside it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
