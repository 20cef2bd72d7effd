package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// processNodes reaches nodes from this process, and runs them in it.
type processNodes struct {
	// logs takes the log of a node or worker inside this process.
	logs io.Writer
	// catalogue is made when it is first needed, once.
	catalogue func() (*tools.Catalogue, error)
}

// newProcessNodes returns the nodes of this process.
func newProcessNodes(logs io.Writer) processNodes {
	return processNodes{logs: logs, catalogue: sync.OnceValues(func() (*tools.Catalogue, error) {
		return tools.New(builtin.All()...)
	})}
}

// noWorker is the concurrency of a node that only answers.
const noWorker = -1

// config turns settings into those of a node.
func (p processNodes) config(cfg config.Config, m mode) node.Config {
	c := node.Config{
		DataDir: cfg.DataDir, Root: cfg.Root, NATSURL: cfg.NATS, CredsFile: cfg.NATSCreds, Durability: cfg.Durability,
		Concurrency: cfg.Concurrency, Queues: cfg.Queues, Paused: cfg.Paused, ReadOnly: cfg.ReadOnly, Lease: cfg.Lease,
		MaxDeliveries: cfg.MaxDeliveries, MaxOpen: cfg.MaxOpen, MaxOpenEach: cfg.MaxOpenEach,
		Host: cfg.Host, Port: cfg.Port, Logger: p.logger(cfg.LogLevel), Version: readVersion().Version,
	}
	if m == idle {
		c.Concurrency = noWorker
	}
	return c
}

func (p processNodes) logger(level string) *slog.Logger {
	var least slog.Level
	if least.UnmarshalText([]byte(level)) != nil {
		least = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(p.logs, &slog.HandlerOptions{Level: least}))
}

// Dial implements nodes.
func (p processNodes) Dial(ctx context.Context, cfg config.Config) (session, error) {
	c := p.config(cfg, idle)
	if cfg.Server != "" {
		c.NATSURL = cfg.Server
	}
	r, err := node.Dial(ctx, c)
	if err != nil {
		return nil, err
	}
	return remote{r}, nil
}

// Open implements nodes. When another process starts a node at the same moment, that one is used.
func (p processNodes) Open(ctx context.Context, cfg config.Config, m mode) (session, error) {
	s, err := p.Dial(ctx, cfg)
	if !fault.Has(err, fault.Unavailable) || cfg.Server != "" {
		return s, err
	}
	n, err := node.Start(ctx, p.config(cfg, m))
	if fault.Has(err, fault.Conflict) {
		return p.redial(ctx, cfg, err)
	}
	if err != nil {
		return nil, err
	}
	return embedded{n.API(), n}, nil
}

// redial waits a moment for a node that another process is starting; conflict is the error when none
// answers.
func (p processNodes) redial(ctx context.Context, cfg config.Config, conflict error) (session, error) {
	const between, patience = 100 * time.Millisecond, 5 * time.Second
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	tick := time.NewTicker(between)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, conflict
		case <-tick.C:
		}
		if s, err := p.Dial(ctx, cfg); err == nil {
			return s, nil
		}
	}
}

// Serve implements nodes.
func (p processNodes) Serve(ctx context.Context, cfg config.Config, ready func(address string)) error {
	n, err := node.Start(ctx, p.config(cfg, working))
	if err != nil {
		return err
	}
	ready(n.Address())
	<-ctx.Done()
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	return n.Stop(limited)
}

// Work implements nodes.
func (p processNodes) Work(ctx context.Context, cfg config.Config) error {
	c := p.config(cfg, working)
	if cfg.Server != "" {
		c.NATSURL = cfg.Server
	}
	return node.RunWorker(ctx, c)
}

// Verify implements nodes. A running node checks its own store; without one this process does.
func (p processNodes) Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verdict, error) {
	s, err := p.Open(ctx, cfg, idle)
	if err != nil {
		return verdict{}, err
	}
	var report bus.Report
	switch s := s.(type) {
	case remote:
		report, err = s.Verify(ctx)
	case embedded:
		report, err = s.node.Store().Verify(ctx, progress)
	}
	limited, stop := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer stop()
	if stopped := s.Close(limited); err == nil {
		err = stopped
	}
	return verdict{Report: report, Found: report.Found}, err
}

// Tools implements nodes.
func (p processNodes) Tools() (*tools.Catalogue, error) { return p.catalogue() }

// remote is a node in another process.
type remote struct {
	client
}

// client is what node.Dial returns.
type client interface {
	orchestrator.API
	Verify(ctx context.Context) (bus.Report, error)
	Close() error
}

// Embedded implements session.
func (remote) Embedded() bool { return false }

// Close implements session.
func (r remote) Close(context.Context) error { return r.client.Close() }

// embedded is a node in this process.
type embedded struct {
	orchestrator.API

	node *node.Node
}

// Embedded implements session.
func (embedded) Embedded() bool { return true }

// Close implements session.
func (e embedded) Close(ctx context.Context) error { return e.node.Stop(ctx) }
