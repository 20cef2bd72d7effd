package forge

import (
	"context"

	"github.com/google/go-github/v92/github"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxBody is the longest description in characters, the limit of GitHub.
const maxBody = 65536

type createIssueIn struct {
	Owner     string   `json:"owner" jsonschema:"Repository owner"`
	Repo      string   `json:"repo" jsonschema:"Repository name"`
	Title     string   `json:"title" jsonschema:"Issue title" minLength:"1" maxLength:"256"`
	Body      *string  `json:"body,omitempty" jsonschema:"Issue description (Markdown supported)"`
	Labels    []string `json:"labels,omitempty" jsonschema:"Labels to apply"`
	Assignees []string `json:"assignees,omitempty" jsonschema:"Users to assign"`
	Milestone *int     `json:"milestone,omitempty" jsonschema:"Milestone number"`
}

// created is what createIssue and createPR have made.
type created struct {
	Number int    `json:"number" jsonschema:"Number in the repository"`
	URL    string `json:"url" jsonschema:"Page for people"`
	ID     int64  `json:"id" jsonschema:"Id on GitHub"`
	State  string `json:"state" jsonschema:"State, such as open"`
}

// github.createIssue (S3-060, S3-068).
func createIssue(a *api) tools.Tool {
	return tools.DefineIntent(tools.Spec{
		Name:        "github.createIssue",
		Title:       "Create an issue on GitHub",
		Purpose:     "Create a new issue in a GitHub repository",
		Conditions:  writeConditions(),
		Effect:      tools.Write,
		Gate:        tools.InProgress,
		Approval:    tools.ByIntent,
		Content:     []string{"title", "body"},
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors:      append(writeErrors(), "GONE"),
	}, func(_ context.Context, _ *tools.Env, in createIssueIn) (tools.Intent, error) {
		if err := in.check(); err != nil {
			return tools.Intent{}, err
		}
		return a.intent("create an issue")
	}, func(ctx context.Context, env *tools.Env, in createIssueIn) (created, error) {
		if err := in.check(); err != nil {
			return created{}, err
		}
		if err := a.authorized(); err != nil {
			return created{}, err
		}
		ctx, cancel := bounded(ctx)
		defer cancel()
		issue, _, err := a.client.Issues.Create(ctx, in.Owner, in.Repo, github.CreateIssueRequest{
			Title: in.Title, Body: in.Body, Labels: in.Labels, Assignees: in.Assignees, Milestone: in.Milestone,
		})
		if err != nil {
			return created{}, a.failedWrite(err, env.Now())
		}
		return made(created{issue.GetNumber(), issue.GetHTMLURL(), issue.GetID(), issue.GetState()})
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

func (in createIssueIn) check() error {
	if err := inRepository(in.Owner, in.Repo); err != nil {
		return err
	}
	return described(in.Body)
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
