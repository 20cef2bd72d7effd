package forge

import (
	"context"

	"github.com/orch-dev/orch/tools"
)

type createIssueIn struct {
	Owner     string   `json:"owner" jsonschema:"Repository owner"`
	Repo      string   `json:"repo" jsonschema:"Repository name"`
	Title     string   `json:"title" jsonschema:"Issue title" minLength:"1" maxLength:"256"`
	Body      *string  `json:"body,omitempty" jsonschema:"Issue description (Markdown supported)"`
	Labels    []string `json:"labels,omitempty" jsonschema:"Labels to apply"`
	Assignees []string `json:"assignees,omitempty" jsonschema:"Users to assign"`
	Milestone *int     `json:"milestone,omitempty" jsonschema:"Milestone number"`
}

// issueRequest is the body of the request that creates an issue.
type issueRequest struct {
	Title     string   `json:"title"`
	Body      *string  `json:"body,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Assignees []string `json:"assignees,omitempty"`
	Milestone *int     `json:"milestone,omitempty"`
}

// createIssue is github.createIssue (S3-060, S3-068).
func createIssue(a *api) tools.Tool {
	return defineCreate(a, "create an issue", tools.Spec{
		Name:    "github.createIssue",
		Title:   "Create an issue on GitHub",
		Purpose: "Create a new issue in a GitHub repository",
		Errors:  append(writeErrors(), "GONE"),
	}, func(ctx context.Context, in createIssueIn) (created, error) {
		return a.create(ctx, repoPath(in.Owner, in.Repo)+"/issues", issueRequest{in.Title, in.Body, in.Labels, in.Assignees, in.Milestone})
	})
}

func (in createIssueIn) check() error {
	if err := checkRepository(in.Owner, in.Repo); err != nil {
		return err
	}
	return checkBody(in.Body)
}
