package forge

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxBody is the longest description in characters, the limit of GitHub.
const maxBody = 65536

// created is what createIssue and createPR have made.
type created struct {
	Number int    `json:"number" jsonschema:"Number in the repository"`
	URL    string `json:"url" jsonschema:"Page for people"`
	ID     int64  `json:"id" jsonschema:"Id on GitHub"`
	State  string `json:"state" jsonschema:"State, such as open"`
}

// creating defines a tool that makes something on GitHub. what says for people what that is, spec what is special about the
// tool, and do makes it.
func creating[In interface{ check() error }](a *api, what string, spec tools.Spec, do func(context.Context, In) (created, error)) tools.Tool {
	spec.Conditions, spec.Content = writeConditions(), []string{"title", "body"}
	spec.Effect, spec.Gate, spec.Approval, spec.Rate = tools.Write, tools.InProgress, tools.ByIntent, tools.External
	spec.OpenWorld, spec.NoWorkspace = true, true
	return tools.DefineIntent(spec, func(_ context.Context, _ *tools.Env, in In) (tools.Intent, error) {
		if err := in.check(); err != nil {
			return tools.Intent{}, err
		}
		return a.intent(what)
	}, func(ctx context.Context, env *tools.Env, in In) (created, error) {
		if err := in.check(); err != nil {
			return created{}, err
		}
		if err := a.authorized(); err != nil {
			return created{}, err
		}
		ctx, cancel := bounded(ctx)
		defer cancel()
		c, err := do(ctx, in)
		if err != nil {
			return created{}, a.failedWrite(err, env.Now())
		}
		return made(c)
	})
}

func writeConditions() []string {
	return []string{
		"Task state: IN_PROGRESS",
		"Endpoint of the API approved in task plan, or at its first use",
		"The operator has configured github_token",
	}
}

func writeErrors() []string {
	return []string{
		"REPO_NOT_FOUND", "ACCESS_DENIED", "RATE_LIMIT", "APPROVAL_REQUIRED", "SECRET_DETECTED", "INVALID_FORMAT", "VALIDATION_ERROR",
		"CONFLICT", "IN_DOUBT", "GITHUB_ERROR", "TIMEOUT", "TOOL_UNAVAILABLE",
	}
}

// described checks a description.
func described(body *string) error {
	if body != nil && len([]rune(*body)) > maxBody {
		return fault.New(fault.ValidationError, "must have at most %d characters", maxBody).WithField("body").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	return nil
}

// made holds an answer against what GitHub always says: without a number nobody knows what it has done.
func made(c created) (created, error) {
	if c.Number == 0 || c.URL == "" {
		return created{}, fault.New(fault.InDoubt, "GitHub did not say what it has made").WithReason("GITHUB_ERROR").
			WithHint("look at the repository before it is done again")
	}
	return c, nil
}
