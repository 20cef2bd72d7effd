package server

import (
	"context"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
)

// maxCompleted is the most values of one completion (S2-041).
const maxCompleted = 100

// complete completes arguments of prompts and variables of resource templates.
func (cm *completer) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	c := clientFrom(ctx)
	var all []string
	var err error
	switch {
	case cm.cfg.Hooks.Complete != nil && cm.cfg.Hooks.Complete(req.Params) != nil:
		all = cm.cfg.Hooks.Complete(req.Params)
	case cm.refersToExternal(req.Params.Ref): // only the external server knows the values
	case req.Params.Argument.Name == "task_id", req.Params.Argument.Name == "taskId":
		all, err = cm.taskIDs(ctx, c)
	case req.Params.Argument.Name == "approval_id":
		all, err = cm.approvalIDs(ctx, c)
	case req.Params.Argument.Name == "tools":
		all = cm.toolNames(c)
	case req.Params.Argument.Name == "path" && req.Params.Context != nil:
		all, err = cm.outputNames(ctx, c, req.Params.Context.Arguments["taskId"])
	}
	if err != nil {
		return nil, err
	}
	fit := []string{}
	for _, value := range all {
		if strings.HasPrefix(value, req.Params.Argument.Value) {
			fit = append(fit, value)
		}
	}
	total := len(fit)
	fit = fit[:min(total, maxCompleted)]
	return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: fit, Total: total, HasMore: total > len(fit)}}, nil
}

// refersToExternal reports whether a completion is for a prompt or resource of an external MCP server.
func (cm *completer) refersToExternal(ref *mcp.CompleteReference) bool {
	if ref == nil {
		return false
	}
	_, prompt := cm.outside.promptOf(ref.Name)
	_, _, resource := outsideOf(ref.URI)
	return prompt || resource
}

func (cm *completer) taskIDs(ctx context.Context, c client) ([]string, error) {
	r := api.ListRequest{Limit: 1000}
	if !c.who.Role.seesAll() {
		r.Requestor = c.who.Name
	}
	got, err := cm.cfg.API.List(ctx, r)
	var ids []string
	for _, t := range got.Tasks {
		ids = append(ids, string(t.ID))
	}
	return ids, err
}

func (cm *completer) approvalIDs(ctx context.Context, c client) ([]string, error) {
	got, err := cm.approvalsFor(ctx, c.who)
	var ids []string
	for _, a := range got.Approvals {
		ids = append(ids, a.ID)
	}
	return ids, err
}

func (cm *completer) toolNames(c client) []string {
	return slices.DeleteFunc(slices.Clone(cm.cfg.Catalogue.Names()), func(name string) bool {
		_, ok := cm.tools.find(c, name)
		return !ok
	})
}

func (cm *completer) outputNames(ctx context.Context, c client, id string) ([]string, error) {
	t, err := cm.taskOf(ctx, c.who, id)
	if err != nil || cm.cfg.Stores.Outputs == nil {
		return nil, nil //nolint:nilerr // an unknown task has no completions
	}
	return cm.cfg.Stores.Outputs.ListOutputs(ctx, t.ID)
}

// completer completes arguments of prompts and resource templates.
type completer struct {
	*core

	tools   *toolView
	outside *outsideView
}
