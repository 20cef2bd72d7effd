package forge

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxBody is the maximum length of a description in characters, a limit of GitHub.
const maxBody = 65536

// created is the result of createIssue and createPR.
type created struct {
	Number int    `json:"number" jsonschema:"Number in the repository"`
	URL    string `json:"url" jsonschema:"Page for people"`
	ID     int64  `json:"id" jsonschema:"Id on GitHub"`
	State  string `json:"state" jsonschema:"State, such as open"`
}

// defineCreate defines a tool that creates something on GitHub. action describes the creation for people, such as
// "create an issue". spec contains the fields of the Spec in which such tools differ. do sends the request.
func defineCreate[In interface{ check() error }](a *api, action string, spec tools.Spec, do func(context.Context, In) (created, error)) tools.Tool {
	spec.Conditions, spec.Content = writeConditions(), []string{"title", "body"}
	spec.Effect, spec.Gate, spec.Approval, spec.Rate = tools.Write, tools.InProgress, tools.ByIntent, tools.External
	spec.OpenWorld, spec.NoWorkspace = true, true
	return tools.DefineIntent(spec, func(_ context.Context, _ *tools.Env, in In) (tools.Intent, error) {
		if err := in.check(); err != nil {
			return tools.Intent{}, err
		}
		return a.intent(action)
	}, func(ctx context.Context, env *tools.Env, in In) (created, error) {
		if err := in.check(); err != nil {
			return created{}, err
		}
		if err := a.requireToken(); err != nil {
			return created{}, err
		}
		ctx, cancel := withCallTimeout(ctx)
		defer cancel()
		c, err := do(ctx, in)
		if err != nil {
			return created{}, a.writeError(err, env.Now())
		}
		return checkCreated(c)
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

// create sends a request that creates something.
func (a *api) create(ctx context.Context, path string, request any) (created, error) {
	var answer struct {
		Number int    `json:"number"`
		URL    string `json:"html_url"`
		ID     int64  `json:"id"`
		State  string `json:"state"`
	}
	err := a.rest.post(ctx, path, request, &answer)
	return created(answer), err
}

// checkBody checks the length of a description.
func checkBody(body *string) error {
	if body != nil && len([]rune(*body)) > maxBody {
		return fault.New(fault.ValidationError, "must have at most %d characters", maxBody).WithField("body").WithReason("SIZE_LIMIT_EXCEEDED")
	}
	return nil
}

// checkCreated returns IN_DOUBT when the response lacks fields that GitHub always sends. Without a number it is unknown
// what was created.
func checkCreated(c created) (created, error) {
	if c.Number == 0 || c.URL == "" {
		return created{}, fault.New(fault.InDoubt, "the response of GitHub does not identify what was created").WithReason("GITHUB_ERROR").
			WithHint("check the repository before repeating the call")
	}
	return c, nil
}
