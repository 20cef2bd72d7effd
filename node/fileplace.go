package node

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
)

// openWorkspace is the workspace of a task, open for reading.
type openWorkspace struct {
	task   events.TaskID
	folder *pathguard.Folder
	place  rootPlace
	policy *policy.Policy
	// hidden are the paths that the policy file hides from the calls of the task.
	hidden policy.HiddenPaths
	// secrets are the secrets of the plan of the task, as far as this process can read them.
	secrets *secret.Set
}

// rootPlace is a root with its workspaces.
type rootPlace struct {
	tree   *workspace.Tree
	policy *policy.Policy
	// close releases the root; nil for that of the node.
	close func() error
}

// openWorkspace opens the workspace in which the calls of a task work. The caller must close it.
func (h *host) openWorkspace(ctx context.Context, id events.TaskID) (*openWorkspace, error) {
	at, err := h.orch.Workplace(ctx, id)
	if err != nil {
		return nil, err
	}
	place, err := h.executor.placeOf(at.Root)
	if err != nil {
		return nil, h.noWorkspace(ctx, at, err)
	}
	w := &openWorkspace{task: at.Task, place: place, policy: place.policy}
	if w.folder, err = place.tree.Open(at.Task); err != nil {
		return nil, errors.Join(h.noWorkspace(ctx, at, err), w.close())
	}
	w.hidden = h.executor.hiddenFrom(at, place.policy)
	w.secrets = secretsOf(at.Secrets, h.cfg.Tools.SecretsAllow)
	return w, nil
}

// placeOf returns the workspaces of a root on this machine.
func (h *executor) placeOf(root string) (rootPlace, error) {
	if root == "" || root == h.root.Name() {
		return rootPlace{tree: h.tree, policy: h.policy}, nil
	}
	other, err := pathguard.Open(root, append(h.cfg.secretFiles(), h.cfg.DataDir)...)
	if err != nil {
		return rootPlace{}, err
	}
	place := rootPlace{close: other.Close}
	if place.tree, err = workspace.New(other, workingDir); err == nil {
		place.policy, err = policy.New(policy.Config{Root: other.Name(), Working: place.tree.Name(), Rules: h.policy.Rules()})
	}
	if err != nil {
		return rootPlace{}, errors.Join(err, other.Close())
	}
	return place, nil
}

// fileReader is the tool whose calls decide which files the policy file hides.
const fileReader = "FILE_READ"

// hiddenFrom returns the paths that the policy file hides from the calls of a task that read files.
func (h *executor) hiddenFrom(at orchestrator.Workplace, p *policy.Policy) policy.HiddenPaths {
	tool, ok := h.catalogue.Get(fileReader)
	if !ok {
		return policy.HiddenPaths{}
	}
	return p.HiddenPaths(p.CallFromLog(tool.Spec(), at.Task, json.RawMessage("{}"), at.Requester))
}

// secretsOf reads secrets from their sources, and leaves out those that cannot be read here.
func secretsOf(names map[string]string, allowed []string) *secret.Set {
	values := map[string]string{}
	for source, name := range names {
		if value, err := secret.Read(source, allowed); err == nil {
			values[name] = value
		}
	}
	return secret.NewSet(values)
}

// close releases the workspace.
func (w *openWorkspace) close() error {
	var err error
	if w.folder != nil {
		err = w.folder.Close()
	}
	if w.place.close != nil {
		err = errors.Join(err, w.place.close())
	}
	return err
}

// closed returns why the content of the file at a path is not shown, as far as the path says; "" if it is.
func (w *openWorkspace) closed(at string) api.Closed {
	switch {
	case w.hidden.Hides(w.folder.Abs(at)), w.hidden.Hides(filepath.Join(w.place.tree.Path(w.task), at)): // also where it was before it was archived
		return api.ClosedPolicy
	case w.policy.IsSecretFile(at):
		return api.ClosedSecret
	}
	return ""
}

// findSecrets returns what looks like a secret, and the secrets of the plan.
func (w *openWorkspace) findSecrets(data []byte) []secrets.Finding {
	return slices.Concat(w.policy.FindSecrets(data), w.secrets.Find(data))
}

// redact replaces the secrets in a short text.
func (w *openWorkspace) redact(text []byte) []byte {
	clean, _ := w.policy.Redact(text)
	clean, _ = w.secrets.Redact(clean)
	return clean
}

// noWorkspace returns why the workspace in which a task has worked is not there. err is the error of its opening.
func (h *host) noWorkspace(ctx context.Context, at orchestrator.Workplace, err error) error {
	if fault.Has(err, fault.Gone) {
		return fault.From(err).WithField("id").WithReason(api.ReasonWorkspaceRemoved)
	}
	if !fault.Has(err, fault.NotFound) {
		return err
	}
	home := at
	if other, err := h.orch.Workplace(ctx, at.Task); err == nil {
		home = other
	}
	needed := at.Parts || home.Parts || h.executor.needWorkspace(slices.Concat(at.Tools, home.Tools))
	switch removed, err := h.pastRetention(ctx, home); {
	case err != nil:
		return err
	case !needed && (!removed || !home.Session):
		return fault.New(fault.NotFound, "the task has no workspace: none of its calls has needed one so far").WithField("id").WithReason(api.ReasonNoWorkspace)
	case removed:
		return fault.New(fault.Gone, "the workspace of the task was removed by retention").WithField("id").WithReason(api.ReasonWorkspaceRemoved).
			WithHint("orch retain says how long workspaces stay")
	}
	missing := fault.New(fault.NotFound, "the workspace of the task is not on the machine of this node%s", ranAt(at.Workers))
	return missing.WithField("id").WithReason(api.ReasonWorkspaceElsewhere).
		WithHint("look on the machine of the worker for %s, or return what you need as an output", filepath.Join(workingDir, string(at.Task)))
}

// ranAt names workers in a sentence.
func ranAt(workers []string) string {
	if len(workers) == 0 {
		return ""
	}
	return "; its calls ran at " + strings.Join(workers[:min(len(workers), 3)], ", ")
}

// needWorkspace reports whether one of some tools needs a workspace. A tool that is not known here may need one.
func (h *executor) needWorkspace(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		tool, known := h.catalogue.Get(name)
		return !known || !tool.Spec().NoWorkspace
	})
}

// pastRetention reports whether retention has had the time to remove the workspace of a task.
func (h *host) pastRetention(ctx context.Context, at orchestrator.Workplace) (bool, error) {
	if at.Ended.IsZero() {
		return false, nil
	}
	keep, _, held, err := h.orch.Retained(ctx, at.Task)
	if err != nil || held {
		return false, err
	}
	stays := keep.FailedWorkspaces
	if at.State == statemachine.Done {
		stays = keep.Workspaces
	}
	return stays > 0 && h.clock().Sub(at.Ended) > stays, nil
}
