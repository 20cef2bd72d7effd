package load_test

import (
	"context"
	"time"

	"github.com/orch-dev/orch/tools"
)

// lease is short, so that lost workers are noticed soon.
const lease = 2 * time.Second

type nothing struct{}

// toolbox are the tools of the tests.
func toolbox(string) []tools.Tool {
	return []tools.Tool{tools.Define(spec("LOAD_NOOP", tools.Read), func(context.Context, *tools.Env, nothing) (nothing, error) {
		return nothing{}, nil
	})}
}

func spec(name string, effect tools.Effect) tools.Spec {
	return tools.Spec{
		Name: name, Purpose: "Serve the load tests", Effect: effect, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}
}
