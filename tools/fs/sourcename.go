package fs

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// defineWithSourceNames is tools.Define for a tool of the S4 rules: the reasons of its errors are the names in those rules
// (S4-010).
//
// Checks run in this order: the schema of the input, the read-only switch, the confinement of every path, the
// existence and permissions of the file, the operation (S4-011).
func defineWithSourceNames[In, Out any](spec tools.Spec, do tools.Func[In, Out]) tools.Tool {
	return tools.Define(spec, func(ctx context.Context, env *tools.Env, in In) (Out, error) {
		out, err := do(ctx, env, in)
		if err != nil {
			return out, withSourceName(fault.From(err))
		}
		return out, nil
	})
}

// withSourceName sets the reason of an error to its name in the S4 rules, if it has one.
func withSourceName(err *fault.Error) *fault.Error {
	if name := tools.SourceName(err.Code); name != "" {
		return err.WithReason(name)
	}
	return err
}

// withField sets the field of an error unless it has one already; nil stays nil.
func withField(field string, err error) error {
	coded := fault.From(err)
	if coded == nil {
		return nil
	}
	if coded.Field == "" {
		return coded.WithField(field)
	}
	return coded
}
