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

// github.createPR (S3-065, S3-068).
func createPR(a *api) tools.Tool {
	return tools.DefineIntent(tools.Spec{
		Name:        "github.createPR",
		Title:       "Create a pull request on GitHub",
		Purpose:     "Create a pull request",
		Conditions:  writeConditions(),
		Effect:      tools.Write,
		Gate:        tools.InProgress,
		Approval:    tools.ByIntent,
		Content:     []string{"title", "body"},
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors:      writeErrors(),
	}, func(_ context.Context, _ *tools.Env, in createPRIn) (tools.Intent, error) {
		if err := in.check(); err != nil {
			return tools.Intent{}, err
		}
		return a.intent("create a pull request")
	}, func(ctx context.Context, env *tools.Env, in createPRIn) (created, error) {
		if err := in.check(); err != nil {
			return created{}, err
		}
		if err := a.authorized(); err != nil {
			return created{}, err
		}
		ctx, cancel := bounded(ctx)
		defer cancel()
		pr, _, err := a.client.PullRequests.Create(ctx, in.Owner, in.Repo, github.CreatePullRequest{
			Title: &in.Title, Body: in.Body, Head: in.Head, Base: in.Base, Draft: &in.Draft, MaintainerCanModify: &in.MaintainerCanModify,
		})
		if err != nil {
			return created{}, a.failedWrite(err, env.Now())
		}
		return made(created{pr.GetNumber(), pr.GetHTMLURL(), pr.GetID(), pr.GetState()})
	})
}

func (in createPRIn) check() error {
	if err := inRepository(in.Owner, in.Repo); err != nil {
		return err
	}
	head := in.Head
	if owner, name, ok := strings.Cut(head, ":"); ok { // a branch of a fork
		if err := plain("head", owner, `^[a-zA-Z0-9-]+$`); err != nil {
			return err
		}
		head = name
	}
	if err := branch("head", head); err != nil {
		return err
	}
	if err := branch("base", in.Base); err != nil {
		return err
	}
	return described(in.Body)
}
