package node

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// hands is what a process needs to execute calls.
type hands struct {
	cfg       Config
	root      *pathguard.Root
	tree      *workspace.Tree
	policy    *policy.Policy
	catalogue *tools.Catalogue
	exec      *proc.Runner
	slots     chan struct{}

	mu     sync.Mutex // orders the start of chores and their end
	chores sync.WaitGroup
	closed bool
}

const workingDir = "Working"

func openHands(cfg Config) (*hands, error) {
	h := &hands{cfg: cfg, slots: make(chan struct{}, 4)}
	var err error
	if h.root, err = pathguard.Open(cfg.Root, cfg.DataDir); err != nil {
		return nil, err
	}
	if err = h.open(); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// close waits for the chores, of which no more begin, and then gives back what they need.
func (h *hands) close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.chores.Wait()
	var err error
	if h.exec != nil {
		err = h.exec.Close()
	}
	return errors.Join(err, h.root.Close())
}

func (h *hands) open() error {
	var err error
	if h.tree, err = workspace.New(h.root, workingDir); err != nil {
		return err
	}
	if h.catalogue, err = tools.New(append(builtin.All(builtin.Config{}), h.cfg.Extra...)...); err != nil {
		return err
	}
	if h.exec, err = proc.New(proc.Config{Logger: h.cfg.logger()}); err != nil {
		return err
	}
	data, err := filepath.EvalSymlinks(h.cfg.DataDir)
	if err != nil {
		data = h.cfg.DataDir // a worker elsewhere has none
	}
	rules, err := ReadRules(h.cfg.Policy)
	if err != nil {
		return err
	}
	h.policy, err = policy.New(policy.Config{Root: h.root.Name(), Working: h.tree.Name(), DataDir: data, ReadOnly: h.cfg.ReadOnly, Rules: rules})
	if err != nil {
		return err
	}
	_, err = h.policy.CheckExamples(h.catalogue)
	return err
}

// ReadRules reads a policy file, none for an empty path. Its examples are not tried. Errors: NOT_FOUND,
// FORBIDDEN, and those of policy.ParseRules.
func ReadRules(path string) (*policy.Rules, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no rules are a policy, too
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // the one to protect from changes
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fault.New(fault.NotFound, "there is no policy file %s", path).WithField("policy")
	case err != nil:
		return nil, fault.New(fault.Forbidden, "cannot read the policy file %s: %w", path, err).WithField("policy")
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, policy.MaxRulesFile+1))
	if err != nil {
		return nil, fault.New(fault.Forbidden, "cannot read the policy file %s: %w", path, err).WithField("policy")
	}
	return policy.ParseRules(path, src)
}

func (h *hands) limited(class tools.Rate) bool { return h.policy.Limit(class) > 0 }

func (h *hands) findSecret(data []byte) (string, bool) {
	found := policy.FindSecrets(data)
	if len(found) == 0 {
		return "", false
	}
	return found[0].Rule, true
}

// later does a chore on the files of a task without holding anybody up. Once the hands are closed,
// it does nothing.
func (h *hands) later(task events.TaskID, chore func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.chores.Go(func() {
		h.slots <- struct{}{}
		defer func() { <-h.slots }()
		if err := chore(); err != nil {
			h.cfg.logger().Warn("workspace_chore_failed", slog.String("task", string(task)), slog.Any("error", err))
		}
	})
}

// worker returns a worker for an owner, in this process or elsewhere.
func (h *hands) worker(owner work.Owner) (*worker.Worker, error) {
	return worker.New(owner, h.catalogue, h.policy, worker.Config{
		Queues: h.cfg.Queues, Concurrency: h.cfg.Concurrency, Root: h.root, Working: workingDir,
		Exec: h.exec, Logger: h.cfg.logger(),
	})
}
