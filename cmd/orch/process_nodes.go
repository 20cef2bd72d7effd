package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/mcp/gateway"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/builtin"
)

// processNodes implements the interface nodes: it connects to running nodes, and runs nodes in this process.
type processNodes struct {
	// logs receives the log messages of a node or worker in this process.
	logs io.Writer
	// extra are tools besides the built-in ones.
	extra []tools.Tool
	// catalogue returns the tools of this program. The first call creates them.
	catalogue func() (*tools.Catalogue, error)
}

// newProcessNodes returns a processNodes. The nodes that it runs have the extra tools in addition.
func newProcessNodes(logs io.Writer, extra ...tools.Tool) processNodes {
	return processNodes{logs: logs, extra: extra, catalogue: sync.OnceValues(func() (*tools.Catalogue, error) {
		return tools.New(append(builtin.All(builtin.Config{}), extra...)...)
	})}
}

// noWorker is the concurrency of a node without a worker.
const noWorker = -1

// replicas returns the number of NATS servers that store each stream: 1 for the embedded server.
func replicas(cfg config.Config) int {
	if cfg.Storage.NATS == "" {
		return 1
	}
	return cfg.Storage.Replicas
}

// config converts settings to the configuration of a node that runs in mode m.
func (p processNodes) config(cfg config.Config, m mode) node.Config {
	c := node.Config{
		DataDir: cfg.DataDir, Root: cfg.Root, Paused: cfg.Paused, Operator: bus.OwnerOf(cfg.DataDir),
		Logger: newLogger(p.logs, cfg.LogLevel), Version: readVersion().Version,
		Tools: cfg.Tools, NotifyOn: cfg.NotifyOn, NotifyTo: cfg.Tools.NotifyChannels, Extra: p.extra, Agents: map[string]agent.Command{}, Models: cfg.Models, CallLimits: cfg.CallLimits, Traces: cfg.Traces,
		Storage: node.Storage{
			NATSURL: cfg.Storage.NATS, CredsFile: cfg.Storage.NATSCreds, Replicas: replicas(cfg), Durability: cfg.Storage.Durability, Host: cfg.Storage.Host, Port: cfg.Storage.Port,
			MaxStore: int64(cfg.Storage.MaxStore) << 20, MinFree: int64(cfg.Storage.MinFree) << 20, ReadNewer: m == idle,
		},
		Limits: node.Limits{
			Lease: cfg.Limits.Lease, MaxDeliveries: cfg.Limits.MaxDeliveries, MaxSpawned: cfg.Limits.MaxSpawned, MaxOpen: cfg.Limits.MaxOpen, MaxOpenEach: cfg.Limits.MaxOpenEach,
			Retention: node.Retention{
				ArchiveTo: cfg.Retention.ArchiveTo,
				Completed: days(cfg.Retention.RetainWorkspaces), Failed: days(cfg.Retention.RetainFailed),
				Audit: days(cfg.Retention.RetainAudit),
				Tasks: orchestrator.Retention{Done: days(cfg.Retention.RetainTasks), Failed: days(cfg.Retention.RetainFailedTasks), Rules: cfg.Retention.Rules},
			},
		},
		Confinement: node.Confinement{
			ReadOnly: cfg.Confinement.ReadOnly, FourEyes: cfg.Confinement.FourEyes, Policy: cfg.Confinement.Policy,
			Sandbox: cfg.Confinement.Sandbox, SandboxRead: cfg.Confinement.SandboxRead, SandboxWrite: cfg.Confinement.SandboxWrite, ProgramPath: cfg.Confinement.ProgramPath,
		},
		Worker: node.Worker{Concurrency: cfg.Worker.Concurrency, Queues: cfg.Worker.Queues},
		Faces: node.Faces{
			Writes: cfg.MCP.Writes, SyncWait: cfg.MCP.SyncWait, OutsideApprovals: cfg.MCP.OutsideApprovals, PortableNames: cfg.MCP.PortableNames, PublicURL: cfg.MCP.PublicURL,
		},
	}
	for name, a := range cfg.Agents {
		c.Agents[name] = agent.Command{Argv: a.Command, Timeout: a.Timeout, Network: a.Network}
	}
	if m == idle || cfg.Worker.Concurrency == 0 {
		c.Worker.Concurrency = noWorker
	}
	if cfg.MCP.MCPEnabled {
		c.Faces.Servers = servers(cfg, m)
	}
	return c
}

// days converts a number of days to a duration.
func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

// servers returns the configuration of the external MCP servers of a node.
func servers(cfg config.Config, m mode) node.Servers {
	s := node.Servers{Home: cfg.Home, Workspace: cfg.Root, Still: !cfg.MCP.MCPHotReload}
	if cfg.MCP.MCPProject {
		s.Dir = cfg.Dir
	}
	switch m {
	case idle:
		s.Connect = gateway.Never
	case working, detached:
		s.Connect = gateway.OnCall
	case staying:
		s.Connect = gateway.AtOnce
	}
	return s
}

// Dial implements nodes.
func (p processNodes) Dial(ctx context.Context, cfg config.Config) (session, error) {
	c := p.config(cfg, idle)
	if cfg.Server != "" {
		c.Storage.NATSURL = cfg.Server
	}
	var err error
	if c.Token, err = cfg.IdentityToken.Read(os.Getenv); err != nil {
		return nil, fault.From(err).WithField("identity_token")
	}
	r, err := node.Dial(ctx, c)
	if err != nil {
		return nil, err
	}
	return remote{client: r}, nil
}

// Open implements nodes. If another process starts a node at the same moment, it uses that node.
func (p processNodes) Open(ctx context.Context, cfg config.Config, m mode) (session, error) {
	s, err := p.Attach(ctx, cfg, m)
	if !fault.Has(err, fault.Unavailable) || cfg.Server != "" || cfg.IdentityToken != "" {
		return s, err
	}
	if m != idle && cfg.Worker.Concurrency == 0 {
		return nil, errNoConcurrency("no node runs here, and this command").WithHint("start one and a worker: orch serve, orch worker; or use --concurrency 1")
	}
	s, err = p.start(ctx, cfg, m)
	if fault.Has(err, fault.Conflict) {
		return p.redial(ctx, cfg, m, err)
	}
	return s, err
}

// start starts a node in this process.
func (p processNodes) start(ctx context.Context, cfg config.Config, m mode) (session, error) {
	c := p.config(cfg, m)
	c.NotifyTo = slices.DeleteFunc(slices.Clone(c.NotifyTo), func(name string) bool { return name == "log" }) // the command shows these notices itself
	c.Guest = cmp.Or(cfg.Command, "orch")
	c.HandedOver = func() { _, _ = fmt.Fprintln(p.logs, "another node takes over; this command goes on as its client") }
	n, err := node.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return embedded{n.API(), n.Agents(), n}, nil
}

// errNoConcurrency returns the error for a concurrency of 0 if who has to execute calls.
func errNoConcurrency(who string) *fault.Error {
	return fault.New(fault.ValidationError, "%s can do nothing with 0 calls at the same time", who).WithField("concurrency")
}

// redial opens a session after a start failed with the error conflict, because another process holds the data directory. It
// waits a moment until that process answers as a node, or until it ends and a node can be started here. Otherwise it uses any node
// that answers, or returns conflict. It tries often: beside a loop of short commands the directory is free for milliseconds.
func (p processNodes) redial(ctx context.Context, cfg config.Config, m mode, conflict error) (session, error) {
	const between, patience = 10 * time.Millisecond, 5 * time.Second
	limit := time.NewTimer(patience)
	defer limit.Stop()
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, conflict
		case <-limit.C:
			if s, err := p.attach(ctx, cfg, m); err == nil {
				return s, nil
			}
			return nil, conflict
		case <-tick.C:
		}
		if s, err := p.Attach(ctx, cfg, m); err == nil {
			return s, nil
		}
		if s, err := p.start(ctx, cfg, m); !fault.Has(err, fault.Conflict) {
			return s, err
		}
	}
}

// Serve implements nodes.
func (p processNodes) Serve(ctx context.Context, cfg config.Config, waits func(bus.Holder), ready func(address, mcp string)) error {
	c := p.config(cfg, staying)
	c.Worker.OwnTools = true
	c.Faces.HTTP, c.Faces.HTTPOptional = faceAddress(cfg.MCP.HTTP)
	c.User = strings.TrimPrefix(c.Operator, "user:")
	return node.Serve(ctx, c, stopTime, waits, ready)
}

// defaultFace is the default address of the HTTP server for MCP.
const defaultFace = "127.0.0.1:7424"

// faceAddress returns the address of the HTTP server for MCP. optional reports whether the node starts without it if the address
// is in use.
func faceAddress(setting string) (address string, optional bool) {
	switch setting {
	case "auto":
		return defaultFace, true
	case "off":
		return "", false
	default:
		return setting, false
	}
}

// Nodes implements nodes.
func (p processNodes) Nodes(ctx context.Context, cfg config.Config) (node.NodesReply, error) {
	c := p.config(cfg, idle)
	if cfg.Server != "" {
		c.Storage.NATSURL = cfg.Server
	}
	return node.Nodes(ctx, c)
}

// Work implements nodes.
func (p processNodes) Work(ctx context.Context, cfg config.Config) error {
	if cfg.Worker.Concurrency == 0 {
		return errNoConcurrency("a worker")
	}
	c := p.config(cfg, staying)
	if cfg.Server != "" {
		c.Storage.NATSURL = cfg.Server
	}
	c.Worker.Metrics = cfg.Worker.Metrics
	err := node.RunWorker(ctx, c)
	if f := fault.From(err); f != nil && f.Field == "metrics" {
		return f.WithField("--metrics")
	}
	return err
}

// Verify implements nodes. A running node checks its own store. If no node runs, this process first checks the files, because a
// node does not start on damaged files, and then starts a node to check the store.
func (p processNodes) Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verifyResult, error) {
	idle, err := p.inspectIdle(ctx, cfg)
	if err != nil || idle.Found > 0 {
		return idle, err
	}
	var report bus.Report
	err = p.withSession(ctx, cfg, func(s session) (err error) {
		switch s := s.(type) {
		case remote:
			report, err = s.Verify(ctx)
		case embedded:
			report, err = s.node.Store().Verify(ctx, progress)
		}
		return err
	})
	if before, ok := idle.Report.(bus.Report); ok { // the start may have repaired damage
		report.Mended = append(before.Mended, report.Mended...)
	}
	return verifyResultOf(report), err
}

// inspectIdle inspects the data directory while no node runs on it.
func (p processNodes) inspectIdle(ctx context.Context, cfg config.Config) (verifyResult, error) {
	s, err := p.Dial(ctx, cfg)
	if err == nil {
		return verifyResult{}, s.Close(ctx)
	}
	if !fault.Has(err, fault.Unavailable) || cfg.Server != "" {
		return verifyResult{}, err
	}
	return p.Inspect(ctx, cfg)
}

// Inspect implements nodes. It cannot check the files of an external server.
func (p processNodes) Inspect(ctx context.Context, cfg config.Config) (verifyResult, error) {
	if cfg.Storage.NATS != "" || cfg.Server != "" {
		return verifyResult{}, nil
	}
	report, err := bus.Inspect(ctx, cfg.DataDir)
	return verifyResultOf(report), err
}

// Salvage implements nodes.
func (p processNodes) Salvage(ctx context.Context, cfg config.Config) (bus.Salvaged, error) {
	if cfg.Storage.NATS != "" || cfg.Server != "" {
		return bus.Salvaged{}, fault.New(fault.InvalidParams, "the files of an external server are not here").WithField("--salvage").
			WithHint("its own tools mend them")
	}
	return bus.Salvage(ctx, cfg.DataDir, newLogger(p.logs, cfg.LogLevel))
}

func verifyResultOf(r bus.Report) verifyResult {
	v := verifyResult{Report: r, Found: r.Found, Newer: r.Newer, Lost: r.Lost}
	for _, problem := range r.Problems {
		v.Problems = append(v.Problems, problem.String())
	}
	for _, problem := range r.Mended {
		v.Mended = append(v.Mended, problem.String())
	}
	return v
}

// withSession opens a session, calls fn, and closes the session.
func (p processNodes) withSession(ctx context.Context, cfg config.Config, fn func(session) error) error {
	s, err := p.Open(ctx, cfg, idle)
	if err != nil {
		return err
	}
	err = fn(s)
	if err != nil && handedOver(s) {
		err = p.withNextNode(ctx, cfg, fn)
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	if stopped := s.Close(limited); err == nil {
		err = stopped
	}
	return err
}

// withNextNode calls fn with a session of the node that has taken over.
func (p processNodes) withNextNode(ctx context.Context, cfg config.Config, fn func(session) error) error {
	s, err := dialOrOpen(ctx, p, cfg, idle)
	if err != nil {
		return err
	}
	return useSession(ctx, s, fn)
}

// Backup implements nodes.
func (p processNodes) Backup(ctx context.Context, cfg config.Config, file string, credentials bool, tell func(string)) (backupReport, error) {
	settings := bus.BackupConfig{
		Version: readVersion().Version,
		Progress: func(stream string, done, _ uint64) {
			tell(fmt.Sprintf("saved %s KiB of %s", screen.Number(int(done>>10)), stream))
		},
	}
	if credentials {
		settings.Credentials = cfg.DataDir
	}
	tell("checking the log")
	var m bus.Manifest
	err := p.withSession(ctx, cfg, func(s session) (err error) {
		switch s := s.(type) {
		case remote:
			m, err = s.Backup(ctx, file, settings)
		case embedded:
			m, err = s.node.Backup(ctx, file, settings)
		}
		return err
	})
	return backupReport{File: file, DataDir: cfg.DataDir, Bytes: m.Bytes}, err
}

// Tokens implements nodes.
func (p processNodes) Tokens(ctx context.Context, cfg config.Config, do func(bus.TokenStore) error) error {
	return p.withSession(ctx, cfg, func(s session) error {
		switch s := s.(type) {
		case remote:
			return do(actingTokens{s, s.Identity()})
		case embedded:
			return do(actingTokens{s.node.TokenStore(), s.Identity()})
		}
		return nil
	})
}

// actingTokens is a bus.TokenStore that creates and revokes tokens as the user.
type actingTokens struct {
	bus.TokenStore

	who string
}

// CreateToken implements bus.TokenStore.
func (t actingTokens) CreateToken(ctx context.Context, in bus.NewToken) (bus.Token, error) {
	in.Actor = t.who
	return t.TokenStore.CreateToken(ctx, in)
}

// RevokeToken implements bus.TokenStore.
func (t actingTokens) RevokeToken(ctx context.Context, in bus.RevokeToken) (bus.Token, error) {
	in.Actor = t.who
	return t.TokenStore.RevokeToken(ctx, in)
}

// restoreCluster makes the store of a cluster of a backup.
func (p processNodes) restoreCluster(ctx context.Context, cfg config.Config, file string, tell func(string)) (backupReport, error) {
	r, err := node.RestoreCluster(ctx, p.config(cfg, idle), file, "user:"+osUser(), tell)
	return backupReport{
		File: file, Servers: cfg.Storage.NATS, Bytes: r.Manifest.Bytes,
		Tasks: int(r.Report.Tasks), Commits: int(r.Report.Live + r.Report.Archived), //nolint:gosec // counts do not overflow
	}, err
}

// Restore implements nodes.
func (p processNodes) Restore(ctx context.Context, cfg config.Config, file string, replace bool, tell func(string)) (backupReport, error) {
	if cfg.Storage.NATS != "" {
		return p.restoreCluster(ctx, cfg, file, tell)
	}
	r, err := bus.Restore(ctx, bus.RestoreConfig{
		File: file, DataDir: cfg.DataDir, Replace: replace, Logger: newLogger(p.logs, cfg.LogLevel), Progress: tell,
		Staged: func(dir string) error {
			act := node.NewFileAct("store.restore", "", map[string]string{"file": file})
			act.Actor = "user:" + osUser()
			return node.AppendFileAct(dir, act)
		},
	})
	return backupReport{
		File: file, DataDir: cfg.DataDir, Bytes: r.Manifest.Bytes, Aside: r.Aside,
		Tasks: int(r.Report.Tasks), Commits: int(r.Report.Live + r.Report.Archived), //nolint:gosec // counts do not overflow
	}, err
}

// Tools implements nodes.
func (p processNodes) Tools() (*tools.Catalogue, error) { return p.catalogue() }

// client contains the methods of *rpc.Remote that commands use.
type client interface {
	api.API
	agents.Service
	node.Asker
	bus.TokenStore
	Identity() string
	Verify(ctx context.Context) (bus.Report, error)
	Backup(ctx context.Context, file string, cfg bus.BackupConfig) (bus.Manifest, error)
	Close() error
}

// embedded is a node in this process.
type embedded struct {
	api.API
	agents.Service

	node *node.Node
}

// Embedded implements session.
func (e embedded) Embedded() bool { return !e.node.HandedOver() }

// Ask implements session.
func (e embedded) Ask(ctx context.Context, method string, in, out any) error {
	return e.node.Ask(ctx, method, in, out)
}

// Identity implements session.
func (e embedded) Identity() string { return e.node.Operator() }

// Close implements session.
func (e embedded) Close(ctx context.Context) error { return e.node.Stop(ctx) }
