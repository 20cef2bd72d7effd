package forge

import (
	"context"
	"strings"

	"github.com/google/go-github/v92/github"

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

// createPR is github.createPR (S3-065, S3-068).
func createPR(a *api) tools.Tool {
	return defineCreate(a, "create a pull request", tools.Spec{
		Name:    "github.createPR",
		Title:   "Create a pull request on GitHub",
		Purpose: "Create a pull request",
		Errors:  writeErrors(),
	}, func(ctx context.Context, in createPRIn) (created, error) {
		pr, _, err := a.client.PullRequests.Create(ctx, in.Owner, in.Repo, github.CreatePullRequest{
			Title: &in.Title, Body: in.Body, Head: in.Head, Base: in.Base, Draft: &in.Draft, MaintainerCanModify: &in.MaintainerCanModify,
		})
		return created{pr.GetNumber(), pr.GetHTMLURL(), pr.GetID(), pr.GetState()}, err
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
