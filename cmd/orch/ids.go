package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/statemachine"
)

// stopTime limits how long an embedded node may take to stop.
const stopTime = 20 * time.Second

// with opens a session for the length of do.
func (a *app) with(ctx context.Context, m mode, do func(s session) error) error {
	s, err := a.open(ctx, m)
	if err != nil {
		return err
	}
	a.identity = s.Identity()
	return during(ctx, s, do)
}

// open connects to a node or starts one. One of this process may be handed over meanwhile.
func (a *app) open(ctx context.Context, m mode) (session, error) {
	s, err := a.nodes.Open(ctx, a.cfg, m)
	if err != nil || !s.Embedded() {
		return s, err
	}
	return a.lasting(ctx, s, m), nil
}

// lasting makes a session one that goes on with another node when its own ends.
func (a *app) lasting(ctx context.Context, s session, m mode) session {
	return newReconnectingSession(s, func() (session, error) { return dialOrOpen(ctx, a.nodes, a.cfg, m) }, a.now)
}

// withLasting is with for a command that goes on when the node ends.
func (a *app) withLasting(ctx context.Context, m mode, do func(s session) error) error {
	s, err := a.nodes.Open(ctx, a.cfg, m)
	if err != nil {
		return err
	}
	a.identity = s.Identity()
	return during(ctx, a.lasting(ctx, s, m), do)
}

// during calls do, and then closes the session.
func during(ctx context.Context, s session, do func(s session) error) error {
	err := do(s)
	if closed := closeSession(ctx, s); err == nil {
		return closed
	}
	return err
}

// closeSession gives an embedded node its time to stop, also after an interrupt.
func closeSession(ctx context.Context, s session) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	return s.Close(ctx)
}

// withTask opens a session and resolves the text of an id.
func (a *app) withTask(ctx context.Context, m mode, text string, do func(s session, id events.TaskID) error) error {
	return a.with(ctx, m, func(s session) error {
		id, err := a.find(ctx, s, text)
		if err != nil {
			return err
		}
		return do(s, id)
	})
}

// find resolves a full id, a unique prefix or @last, the newest task that this user has submitted. When there is no such
// task the error names the one that was probably meant.
func (a *app) find(ctx context.Context, owner api.API, text string) (events.TaskID, error) {
	reply, err := owner.Find(ctx, api.FindRequest{Text: text, Actor: a.actor()})
	if err == nil {
		return reply.ID, nil
	}
	e := fault.From(err)
	if e.Code != fault.NotFound || e.Hint != "" {
		return "", err
	}
	withHint := *e
	withHint.Hint = "see: orch list"
	if near := nearestID(ctx, owner, text); near != "" {
		withHint.Hint = "did you mean " + near + "?"
	}
	return "", &withHint
}

func nearestID(ctx context.Context, owner api.API, text string) string {
	list, err := owner.List(ctx, api.ListRequest{Limit: 200})
	if err != nil || len(text) < len("TASK_")+8 {
		return ""
	}
	ids := make([]string, len(list.Tasks))
	for i, t := range list.Tasks {
		ids[i] = string(t.ID)
	}
	return spell.Nearest(text, ids)
}

// completeTime limits how long the shell waits for a completion.
const completeTime = time.Second

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completeIDs completes ids of the newest tasks for the first n arguments, when a node runs.
func (a *app) completeIDs(n int) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= n || a.configure(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		s, err := a.nodes.Dial(ctx, a.cfg)
		if err != nil {
			return []string{"@last"}, cobra.ShellCompDirectiveNoFileComp
		}
		defer func() { _ = closeSession(ctx, s) }() // a completion has no place for an error
		list, err := s.List(ctx, api.ListRequest{Limit: 50})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		words := []string{"@last"}
		for _, t := range list.Tasks {
			words = append(words, string(t.ID)+"\t"+screen.Escape(t.Name)+" "+string(t.State))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeTools completes names of tools as the first argument.
func (a *app) completeTools(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || a.configure(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	catalogue, err := a.catalogue(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return catalogue.Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeToolFlag completes names of tools as the value of a flag.
func (a *app) completeToolFlag(cmd *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	return a.completeTools(cmd, nil, text)
}

// completeWords completes from a fixed list.
func completeWords(words []string) completion {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlag attaches a completion to a flag of the command, which must exist.
func completeFlag(cmd *cobra.Command, flag string, c completion) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c); err != nil {
		panic("orch: " + err.Error())
	}
}

func stateNames() []string {
	var names []string
	for _, s := range statemachine.States() {
		names = append(names, string(s))
	}
	return names
}
