// Package orch embeds a node in a program: durable plans whose tools are functions of the program.
//
//	node, err := orch.Open(ctx, orch.Options{Dir: "data", Tools: []tools.Tool{resize}})
//	id, err := node.Submit(ctx, orch.Task{Plan: plan.New("photo").Step("small", plan.Call("RESIZE", args)), Key: "photo-1"})
//	result, err := node.Wait(ctx, id)
//
// A node that is opened again continues the tasks that had not ended, also after the program was killed. For all other requests
// there is Node.API.
package orch

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Options configure a node. Dir is required.
type Options struct {
	// Dir is the directory of the log. One process at a time opens it.
	Dir string
	// Tools are the tools of the program, beside the built-in ones. They are given here, and not later, because tasks that had not
	// ended go on at once.
	Tools []tools.Tool
	// Root is the directory that the built-in tools are confined to. Default: the folder root in Dir, which is created.
	Root string
	// Concurrency is the number of calls that run at the same time. Default: 5.
	Concurrency int
	// Relaxed acknowledges before a commit is on disk: a power loss may take the last 100 ms. The death of the program takes nothing.
	Relaxed bool
	// HTTP is the address at which the node serves MCP, the HTTP API and its page, such as 127.0.0.1:7424. Default: none.
	HTTP string
	// Policy is the path of a policy file. Default: none.
	Policy string
	// Actor is the identity in the log of what the program does, such as user:ada. Default: user:program.
	Actor string
	// Logger is for the events of the node. Default: nothing is logged.
	Logger *slog.Logger
}

// Node is a node in this process. Its methods are safe for concurrent use.
type Node struct {
	node  *node.Node
	actor string
}

// Open opens the node of a directory, and continues the tasks that had not ended. Errors: REQUIRED_FIELD without a directory,
// UNAVAILABLE when another process has it open.
func Open(ctx context.Context, o Options) (*Node, error) {
	if o.Dir == "" {
		return nil, fault.New(fault.RequiredField, "is missing").WithField("Dir")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fault.Wrap(fault.ValidationError, err, "is not a path").WithField("Dir")
	}
	cfg := node.Config{
		DataDir: dir, Root: cmp.Or(o.Root, filepath.Join(dir, "root")), Extra: o.Tools, Logger: o.Logger,
		Worker: node.Worker{Concurrency: o.Concurrency}, Faces: node.Faces{HTTP: o.HTTP}, Confinement: node.Confinement{Policy: o.Policy},
	}
	if o.Relaxed {
		cfg.Storage.Durability = "relaxed"
	}
	if o.Root == "" {
		if err := os.MkdirAll(cfg.Root, 0o700); err != nil {
			return nil, fault.Wrap(fault.ValidationError, err, "the root cannot be created").WithField("Root")
		}
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &Node{n, cmp.Or(o.Actor, "user:program")}, nil
}

// Task is a plan to run.
type Task struct {
	// Plan is a *plan.Builder, a string with the text of a plan file, or any value whose JSON is a plan.
	Plan any
	// Inputs are the inputs of the plan: a value whose JSON is an object. Nil for none.
	Inputs any
	// Key makes the submission idempotent: a task that is submitted again with it is the same task. Empty for none.
	Key string
	// Labels are for lists.
	Labels map[string]string
}

// Submit submits a task and returns its id when the submission is durable. It returns INVALID_PLAN with all problems of a plan that
// is not valid.
func (n *Node) Submit(ctx context.Context, t Task) (id string, err error) {
	r := api.SubmitRequest{IdempotencyKey: t.Key, Labels: t.Labels, Actor: n.actor}
	if r.Plan, err = encode(t.Plan, "Plan"); err != nil {
		return "", err
	}
	if t.Inputs != nil {
		if r.Inputs, err = encode(t.Inputs, "Inputs"); err != nil {
			return "", err
		}
	}
	reply, err := n.node.API().Submit(ctx, r)
	return string(reply.ID), err
}

// Result is how a task has ended.
type Result struct {
	// State is DONE, FAILED, CANCELLED or REJECTED.
	State string
	// Output has the outputs of the plan as JSON.
	Output json.RawMessage
	// Err is the coded error of a task that is not done; nil for one that is.
	Err error
}

// Decode decodes the outputs into a value.
func (r Result) Decode(into any) error {
	if r.Err != nil {
		return r.Err
	}
	if err := json.Unmarshal(r.Output, into); err != nil {
		return fault.Wrap(fault.ValidationError, err, "the outputs do not fit")
	}
	return nil
}

// patience is how long one request waits for the end of a task.
const patience = 30 * time.Second

// Wait waits for the end of a task. It returns an error only if the end is not known, such as NOT_FOUND, or the error of ctx.
func (n *Node) Wait(ctx context.Context, id string) (Result, error) {
	for {
		r, err := n.node.API().Result(ctx, api.ResultRequest{ID: events.TaskID(id), Wait: patience})
		switch {
		case err != nil:
			return Result{}, err
		case ctx.Err() != nil:
			return Result{}, fault.From(ctx.Err())
		case !r.Ended:
			continue
		}
		out := Result{State: string(r.State), Output: r.Output}
		if r.Error != nil {
			out.Err = r.Error
		} else if r.State != statemachine.Done {
			out.Err = fault.New(fault.Cancelled, "the task is %s", r.State)
		}
		return out, nil
	}
}

// Signal delivers data to a step that waits for a signal. data is any value with a JSON form; nil for none.
func (n *Node) Signal(ctx context.Context, id, name string, data any) error {
	text, err := encode(data, "data")
	if err != nil {
		return err
	}
	_, err = n.node.API().Signal(ctx, api.SignalRequest{ID: events.TaskID(id), Name: name, Data: text, Actor: n.actor})
	return err
}

// API returns all requests of the node.
func (n *Node) API() api.API { return n.node.API() }

// drain is how long Close waits for calls that run.
const drain = 10 * time.Second

// Close stops the node. Calls that run have 10 seconds to end; those that read, or may be repeated, are made again when the node is
// opened next.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return n.node.Stop(ctx)
}

func encode(value any, field string) (json.RawMessage, error) {
	text, err := json.Marshal(value)
	if err != nil {
		if coded := fault.From(err); coded.Code != fault.Internal {
			return nil, coded
		}
		return nil, fault.Wrap(fault.ValidationError, err, "has no JSON form").WithField(field)
	}
	return text, nil
}
