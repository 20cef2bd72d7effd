// Package model is the tool that asks language models. Agent steps call it; no plan can. It runs only in the process of the
// node, which has the credentials of the providers and the history that the conversation comes from.
package model

import (
	"context"
	"errors"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/sampling"
	"github.com/orch-dev/orch/tools"
)

// Config connects the tool with a node. With the zero value the tool returns TOOL_UNAVAILABLE.
type Config struct {
	// Node returns the node; nil if there is none, or if it is not ready yet.
	Node func() Node
}

// Node is what the tool needs of a node.
type Node interface {
	// Request returns the request of the current turn of an agent step, the names of the models, and the position of the
	// one to ask first. It returns CONFLICT if the agent is not in the turn of the arguments.
	Request(ctx context.Context, task events.TaskID, args models.CallArgs) (r models.Request, names []string, first int, err error)
	// Provider returns the provider of a model for a task, and what the provider calls the model.
	Provider(task events.TaskID, model string) (models.Provider, string, error)
}

// Internal returns the tool.
func Internal(cfg Config) []tools.Tool {
	return []tools.Tool{tools.Define(tools.Spec{
		Name:        models.CallTool,
		Title:       "Ask a model",
		Purpose:     "Ask the model of an agent for its next answer",
		Conditions:  []string{"Part of an agent step"},
		Effect:      tools.Idempotent,
		Gate:        tools.InProgress,
		Approval:    tools.NoApproval,
		OpenWorld:   true,
		Rate:        tools.Models,
		Internal:    true,
		AtNode:      true,
		NoWorkspace: true,
		Timeout:     models.CallTimeout,
		Errors:      []string{"TOOL_UNAVAILABLE", "RATE_LIMITED", "UNAVAILABLE", "NETWORK_ERROR", "UNAUTHORIZED", "VALIDATION_ERROR", "CONFLICT", "NOT_FOUND", "FORBIDDEN"},
	}, cfg.call)}
}

func (cfg Config) call(ctx context.Context, env *tools.Env, in models.CallArgs) (models.Called, error) {
	if cfg.Node == nil || cfg.Node() == nil {
		return models.Called{}, fault.New(fault.ToolUnavailable, "this requires a running node").WithHint("start one: orch serve")
	}
	node := cfg.Node()
	request, names, first, err := node.Request(ctx, env.Task, in)
	if err != nil {
		return models.Called{}, err
	}
	first = goesOn(env, names, first)
	var failed error
	for i := range names {
		at := (first + i) % len(names)
		answer, err := ask(ctx, env, node, names[at], request)
		if err == nil {
			return models.Called{Model: at, Answer: answer}, nil
		}
		if ends(ctx, err) {
			return models.Called{}, err
		}
		failed = worse(failed, err)
	}
	return models.Called{}, failed
}

// ends reports whether no other model is asked after an error. An answer that has begun may be billed, so the budget has to permit another
// request; a question waits for its answer.
func ends(ctx context.Context, err error) bool {
	_, waits := errors.AsType[*tools.Asking](err)
	reason := fault.From(err).Reason
	return ctx.Err() != nil || waits || fault.Has(err, fault.NetworkError) || reason == models.ReasonOverrun || reason == models.ReasonTooLarge
}

// ask asks one model. Observers of the call see the text of the answer as it arrives.
func ask(ctx context.Context, env *tools.Env, node Node, name string, r models.Request) (models.Answer, error) {
	if sampling.Named(name) {
		return askClient(env, name, r)
	}
	provider, id, err := node.Provider(env.Task, name)
	if err != nil {
		return models.Answer{}, err
	}
	r.Model = id
	begun := false
	answer, err := provider.Stream(ctx, r, func(d models.Delta) {
		begun = true
		if d.Text != "" {
			env.Output([]byte(d.Text))
		}
	})
	if err != nil {
		return models.Answer{}, Fault(name, broken(err, begun), env.Now())
	}
	return answer, nil
}

// broken returns the error of an answer that has begun when a provider gives it up, for whatever reason: it may be billed, as one whose
// connection breaks.
func broken(err error, begun bool) error {
	e, ok := errors.AsType[*models.Error](err)
	if !ok || !begun || e.Kind == models.TooLarge {
		return err
	}
	cut := *e
	cut.Kind = models.Transport
	if e.Kind == models.TooLong {
		cut.Kind = models.Overrun
	}
	return &cut
}

// worse returns the error to report of two models that did not answer: one after which another attempt may succeed, or else a shorter
// request, or else the first.
func worse(first, second error) error {
	switch {
	case first == nil, !temporary(first) && temporary(second):
		return second
	case !temporary(first) && !tooLong(first) && tooLong(second):
		return second
	default:
		return first
	}
}

func tooLong(err error) bool { return fault.From(err).Reason == models.ReasonTooLong }

func temporary(err error) bool {
	return fault.Has(err, fault.RateLimited) || fault.Has(err, fault.Unavailable)
}

// Fault returns the error of a provider with its code. It names the model. now is the time from which RetryAt counts.
func Fault(model string, err error, now time.Time) *fault.Error {
	e, ok := errors.AsType[*models.Error](err)
	if !ok {
		return fault.From(err)
	}
	codes := map[models.Kind]fault.Code{
		models.RateLimited: fault.RateLimited, models.Overloaded: fault.Unavailable, models.Unreachable: fault.Unavailable, models.Transport: fault.NetworkError,
		models.Unauthorized: fault.Unauthorized, models.TooLong: fault.ValidationError, models.Overrun: fault.ValidationError, models.TooLarge: fault.ValidationError, models.Invalid: fault.ValidationError,
	}
	f := fault.New(codes[e.Kind], "the model %s: %s", model, e.Message)
	switch e.Kind {
	case models.TooLong:
		f = f.WithReason(models.ReasonTooLong).WithHint("shorten the prompt, the instructions or the list of tools, or name a model that accepts more in fallback")
	case models.Overrun:
		f = f.WithReason(models.ReasonOverrun).WithHint("shorten the prompt, the instructions or the list of tools, or lower max_tokens of the agent")
	case models.TooLarge:
		f = f.WithReason(models.ReasonTooLarge).WithHint("lower max_tokens of the agent")
	case models.Unauthorized:
		f = f.WithHint("check the key of the provider under models in the settings: orch models test %s", model)
	case models.RateLimited, models.Overloaded, models.Unreachable, models.Transport, models.Invalid: // the message says all
	}
	if e.After > 0 {
		f = f.WithRetryAt(now.Add(e.After))
	}
	return f
}
