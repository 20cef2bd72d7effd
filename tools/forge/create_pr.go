package forge

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/tools"
)

type createPRIn struct {
	Owner               string  `json:"owner" jsonschema:"Repository owner"`
	Repo                string  `json:"repo" jsonschema:"Repository name"`
	Title               string  `json:"title" jsonschema:"PR title" minLength:"1" maxLength:"256"`
	Body                *string `json:"body,omitempty" jsonschema:"PR description (Markdown supported)"`
	Head                string  `json:"head" jsonschema:"Branch to merge from"`
	Base                string  `json:"base" jsonschema:"Branch to merge into"`
	Draft               bool    `json:"draft,omitempty" jsonschema:"Create as draft PR" default:"false"`
	MaintainerCanModify bool    `json:"maintainer_can_modify,omitempty" jsonschema:"Maintainers may push to the branch" default:"true"`
}

// pullRequest is the body of the request that creates a pull request.
type pullRequest struct {
	Title               string  `json:"title"`
	Body                *string `json:"body,omitempty"`
	Head                string  `json:"head"`
	Base                string  `json:"base"`
	Draft               bool    `json:"draft"`
	MaintainerCanModify bool    `json:"maintainer_can_modify"`
}

// createPR is github.createPR (S3-065, S3-068).
func createPR(a *api) tools.Tool {
	return defineCreate(a, "create a pull request", tools.Spec{
		Name:    "github.createPR",
		Title:   "Create a pull request on GitHub",
		Purpose: "Create a pull request",
		Errors:  writeErrors(),
	}, func(ctx context.Context, in createPRIn) (created, error) {
		return a.create(ctx, repoPath(in.Owner, in.Repo)+"/pulls", pullRequest{
			in.Title, in.Body, in.Head, in.Base, in.Draft, in.MaintainerCanModify,
		})
	})
}

func (in createPRIn) check() error {
	if err := checkRepository(in.Owner, in.Repo); err != nil {
		return err
	}
	head := in.Head
	if owner, name, ok := strings.Cut(head, ":"); ok { // a branch of a fork
		if err := checkName("head", owner, `^[a-zA-Z0-9-]+$`); err != nil {
			return err
		}
		head = name
	}
	if err := checkRef("head", head); err != nil {
		return err
	}
	if err := checkRef("base", in.Base); err != nil {
		return err
	}
	return checkBody(in.Body)
}
