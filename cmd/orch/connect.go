package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/node"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// processNodes reaches nodes from this process.
type processNodes struct {
	// logs takes the log of a node inside this process.
	logs io.Writer
}

// remoteSession is a session with a node elsewhere.
type remoteSession struct{ *bus.Remote }

// Embedded implements session.
func (remoteSession) Embedded() bool { return false }

// Close implements session.
func (s remoteSession) Close(context.Context) error { return s.Remote.Close() }

// ownSession is a session with a node inside this process.
type ownSession struct {
	orchestrator.API

	node *node.Node
}

// Embedded implements session.
func (ownSession) Embedded() bool { return true }

// Close implements session.
func (s ownSession) Close(ctx context.Context) error { return s.node.Stop(ctx) }

// Dial implements nodes.
func (p processNodes) Dial(ctx context.Context, cfg config.Config) (session, error) {
	remote, err := node.Dial(ctx, p.remote(cfg))
	if err != nil {
		return nil, err
	}
	return remoteSession{remote}, nil
}

// Open implements nodes.
func (p processNodes) Open(ctx context.Context, cfg config.Config, m mode) (session, error) {
	for {
		s, err := p.Dial(ctx, cfg)
		if err == nil || cfg.Server != "" || !fault.Has(err, fault.Unavailable) {
			return s, err
		}
		s, err = p.start(ctx, cfg, m)
		if !inUse(err) {
			return s, err
		}
		// Another process has just started a node here, or is stopping one: ask again.
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func inUse(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Reason == bus.DataDirInUse
}

func (p processNodes) start(ctx context.Context, cfg config.Config, m mode) (session, error) {
	c := p.local(cfg)
	if m == idle {
		c.Concurrency = -1
	}
	n, err := node.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	return ownSession{API: n.API(), node: n}, nil
}

// Serve implements nodes.
func (p processNodes) Serve(ctx context.Context, cfg config.Config, ready func(string)) error {
	n, err := node.Start(ctx, p.local(cfg))
	if err != nil {
		return err
	}
	ready(n.Address())
	<-ctx.Done()
	return n.Stop(context.WithoutCancel(ctx))
}

// Work implements nodes.
func (p processNodes) Work(ctx context.Context, cfg config.Config) error {
	c := p.remote(cfg)
	c.Concurrency, c.Queues, c.ReadOnly = cfg.Concurrency, cfg.Queues, cfg.ReadOnly
	return node.RunWorker(ctx, c)
}

// Verify implements nodes. A running node checks its own store.
func (p processNodes) Verify(ctx context.Context, cfg config.Config, progress func(done, total uint64)) (verdict, error) {
	s, err := p.Open(ctx, cfg, idle)
	if err != nil {
		return verdict{}, err
	}
	var report bus.Report
	switch s := s.(type) {
	case remoteSession:
		report, err = s.Verify(ctx)
	case ownSession:
		report, err = s.node.Store().Verify(ctx, progress)
	}
	err = errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	return verdict{Report: report, Found: report.Found}, err
}

// Tools implements nodes.
func (p processNodes) Tools() (*tools.Catalogue, error) { return tools.New(builtin.All()...) }

// remote is the configuration of a client or a worker of a node elsewhere.
func (p processNodes) remote(cfg config.Config) node.Config {
	url := cfg.Server
	if url == "" {
		url = cfg.NATS
	}
	return node.Config{DataDir: cfg.DataDir, Root: cfg.Root, NATSURL: url, CredsFile: cfg.NATSCreds, Logger: p.logger(cfg)}
}

// local is the configuration of a node inside this process.
func (p processNodes) local(cfg config.Config) node.Config {
	return node.Config{
		DataDir: cfg.DataDir, Root: cfg.Root, NATSURL: cfg.NATS, CredsFile: cfg.NATSCreds,
		Durability: cfg.Durability, Concurrency: cfg.Concurrency, Queues: cfg.Queues, Paused: cfg.Paused,
		ReadOnly: cfg.ReadOnly, Lease: cfg.Lease, Host: cfg.Host, Port: cfg.Port,
		Logger: p.logger(cfg), Version: readVersion().Version,
	}
}

func (p processNodes) logger(cfg config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelWarn // the settings were checked; this is for tests with none
	}
	return slog.New(slog.NewTextHandler(p.logs, &slog.HandlerOptions{Level: level}))
}
