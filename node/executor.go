package node

import (
	"cmp"
	"context"
	"errors"
	"go/build"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/internal/proc"
	"github.com/orch-dev/orch/internal/workspace"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/mcp/registry"
	"github.com/orch-dev/orch/models/directory"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/work"
	"github.com/orch-dev/orch/worker"
)

// executor contains what a process needs to execute calls: tools, policy, workspaces and child processes.
type executor struct {
	cfg       Config
	root      *pathguard.Root
	tree      *workspace.Tree
	policy    *policy.Policy
	catalogue *tools.Catalogue
	families  builtin.Config
	exec      *proc.Runner
	models    *directory.Directory
	slots     chan struct{}
	// gateway provides the tools of MCP servers; nil if there are none.
	gateway *gateway.Gateway
	// registry contains the registered agents; nil in the process of a worker, and before the node accepts tasks.
	registry atomic.Pointer[auditedAgents]
	// dispatcher dispatches calls to registered agents; nil if registry is nil.
	dispatcher atomic.Pointer[agentDispatcher]
	// nodeInfo provides information about the node to tools; empty in the process of a worker, and before the node accepts
	// tasks.
	nodeInfo atomic.Pointer[nodeInfo]

	// stop ends the periodic jobs.
	stop context.CancelFunc

	mu     sync.Mutex // guards closed, so that no job starts after close waits for chores
	chores sync.WaitGroup
	closed bool
}

const workingDir = "Working"

// openExecutor prepares the executor of calls. databases are those of the firebase tools; c carries the notifications of the
// channel "nats". onChange is called with changes of external MCP servers, and callEnded reports whether a call has ended; both
// may be nil.
func openExecutor(ctx context.Context, cfg Config, databases firebase.Config, c *bus.Conn, onChange func(context.Context, registry.Change), callEnded func(context.Context, gateway.Call) bool) (*executor, error) {
	chores, stop := context.WithCancel(context.WithoutCancel(ctx))
	h := &executor{cfg: cfg, slots: make(chan struct{}, 4), stop: stop}
	var err error
	if h.root, err = pathguard.Open(cfg.Root, append(cfg.secretFiles(), cfg.DataDir)...); err != nil {
		stop()
		return nil, err
	}
	if err = h.open(c, databases); err == nil {
		err = h.openGateway(ctx, onChange, callEnded)
	}
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.chores.Go(func() { h.sweep(chores) })
	return h, nil
}

// close prevents further background jobs, waits for the running ones, and then releases the resources.
func (h *executor) close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.chores.Wait()
	var err error
	if h.gateway != nil {
		err = h.gateway.Close(context.Background())
	}
	if h.exec != nil {
		err = errors.Join(err, h.exec.Close())
	}
	return errors.Join(err, h.root.Close())
}

func (h *executor) open(c *bus.Conn, databases firebase.Config) error {
	var err error
	if h.tree, err = workspace.New(h.root, workingDir); err != nil {
		return err
	}
	if err = h.configure(c); err != nil {
		return err
	}
	h.families.Firebase = databases
	if h.catalogue, err = tools.New(slices.Concat(builtin.All(h.families), builtin.Internal(h.families), h.cfg.Extra)...); err != nil {
		return err
	}
	data, err := filepath.EvalSymlinks(h.cfg.DataDir)
	if err != nil {
		data = h.cfg.DataDir // a remote worker has none
	}
	if err = h.checkProgramPath(); err != nil {
		return err
	}
	if h.exec, err = proc.New(h.processes(data)); err != nil {
		return err
	}
	rules, err := ReadRules(h.cfg.Confinement.Policy)
	if err != nil {
		return err
	}
	h.policy, err = policy.New(policy.Config{Root: h.root.Name(), Working: h.tree.Name(), DataDir: data, ReadOnly: h.cfg.Confinement.ReadOnly, Rules: rules})
	if err != nil {
		return err
	}
	_, err = h.policy.CheckExamples(h.catalogue)
	return err
}

// processes returns the configuration of child processes. They cannot see the files of the node.
func (h *executor) processes(data string) proc.Config {
	modules := userModules()
	c := proc.Config{
		Logger: h.cfg.logger(), Sandbox: proc.Mode(h.cfg.Confinement.Sandbox), Read: append([]string{modules}, h.cfg.Confinement.SandboxRead...),
		Write:   h.cfg.Confinement.SandboxWrite,
		Path:    append(slices.Clone(h.cfg.Confinement.ProgramPath), proc.SystemPath()...),
		Environ: append(os.Environ(), goSettings(modules)...),
	}
	for _, path := range append(h.cfg.secretFiles(), data, h.cfg.DataDir, h.cfg.Storage.CredsFile) {
		if path != "" {
			c.Hidden = append(c.Hidden, path)
		}
	}
	return c
}

// checkProgramPath returns VALIDATION_ERROR if tasks can write to a folder of the program path. A task could put a program
// there that is run instead of the system's.
func (h *executor) checkProgramPath() error {
	for _, dir := range h.cfg.Confinement.ProgramPath {
		target, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return fault.Wrap(fault.ValidationError, err, dir+" cannot be used").WithField("program_path")
		}
		for _, writable := range append([]string{h.root.Name()}, h.cfg.Confinement.SandboxWrite...) {
			writable = pathguard.Real(writable)
			if rel, err := filepath.Rel(writable, target); err == nil && filepath.IsLocal(rel) {
				return fault.New(fault.ValidationError, "%s lies in %s, where tasks write", dir, writable).WithField("program_path").
					WithHint("name a folder that only you write")
			}
		}
	}
	return nil
}

// goSettings returns environment variables for the Go tool chain. They let it use the modules that the user has downloaded,
// each verified against go.sum. They disable its caches, because a build trusts its cache: package worker sets a separate cache
// for each identity, and programs outside of a call have none.
func goSettings(modules string) []string {
	return []string{
		"GOCACHE=off", "GOMODCACHE=" + os.DevNull,
		"GOPROXY=file://" + filepath.Join(modules, "cache", "download") + "," + cmp.Or(os.Getenv("GOPROXY"), "https://proxy.golang.org,direct"),
		"GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -modcacherw"),
	}
}

// userModules returns the directory in which the Go tool chain of the user stores downloaded modules.
func userModules() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	paths := filepath.SplitList(build.Default.GOPATH)
	return filepath.Join(append(paths[:min(len(paths), 1)], "pkg", "mod")...)
}

func (h *executor) limited(class tools.Rate) bool { return h.policy.Limit(class) > 0 }

func (h *executor) findSecret(data []byte) (string, bool) { return findSecret(data) }

// inBackground runs chore, a job on the files of a task, in the background. It does nothing once the executor is closed.
func (h *executor) inBackground(task events.TaskID, chore func() error) {
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

// sweepEvery is the interval between two removals of unused caches.
const sweepEvery = 24 * time.Hour

// sweep removes unused files from the folder of the workspaces, now and every day until the executor is closed.
func (h *executor) sweep(ctx context.Context) {
	for {
		if err := h.tree.Sweep(time.Now()); err != nil {
			h.cfg.logger().WarnContext(ctx, "caches_not_swept", slog.Any("error", err))
		}
		if pause.For(ctx, sweepEvery) != nil {
			return
		}
	}
}

// ownToolsAtOnce is how many calls of the node's own tools run at the same time in a node without a worker.
const ownToolsAtOnce = 2

// worker returns a worker for an owner in this process or elsewhere. It sets the fields of cfg that are the same for all
// workers of the process, and its concurrency unless it is set.
func (h *executor) worker(owner work.Owner, cfg worker.Config) (*worker.Worker, error) {
	if cfg.Concurrency == 0 {
		cfg.Concurrency = h.cfg.Worker.Concurrency
	}
	if cfg.Concurrency < 0 { // the node has only the worker for its own tools
		cfg.Concurrency = ownToolsAtOnce
	}
	cfg.Secrets = h.cfg.Tools.SecretsAllow
	cfg.Local = h.cfg.local()
	cfg.Root, cfg.Working, cfg.Operator, cfg.Exec, cfg.Logger = h.root, workingDir, h.cfg.Operator, h.exec, h.cfg.logger()
	return worker.New(owner, h.catalogue, h.policy, cfg)
}

// workspace returns the path of the workspace of a task in a root.
func (h *executor) workspace(root string, id events.TaskID) string {
	own := h.tree.Path(id)
	rel, err := filepath.Rel(h.root.Name(), own)
	if err != nil || root == h.root.Name() {
		return own
	}
	return filepath.Join(root, rel)
}

// local reports whether the node of the configuration, its clients and its workers are on this machine.
func (c Config) local() bool { return c.Storage.NATSURL == "" }
