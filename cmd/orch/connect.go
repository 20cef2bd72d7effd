package main

import (
	"context"
	"io"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/builtin"
)

// processNodes reaches nodes from this process.
type processNodes struct {
	// logs takes the log of a node inside this process.
	logs io.Writer
}

// Dial implements nodes.
func (p processNodes) Dial(_ context.Context, cfg config.Config) (session, error) {
	return nil, p.none(cfg)
}

// Open implements nodes.
func (p processNodes) Open(_ context.Context, cfg config.Config, _ mode) (session, error) {
	return nil, p.none(cfg)
}

// Serve implements nodes.
func (p processNodes) Serve(_ context.Context, cfg config.Config, _ func(string)) error {
	return p.none(cfg)
}

// Work implements nodes.
func (p processNodes) Work(_ context.Context, cfg config.Config) error { return p.none(cfg) }

// Verify implements nodes.
func (p processNodes) Verify(_ context.Context, cfg config.Config, _ func(uint64, uint64)) (verdict, error) {
	return verdict{}, p.none(cfg)
}

// Tools implements nodes.
func (p processNodes) Tools() (*tools.Catalogue, error) { return tools.New(builtin.All()...) }

func (p processNodes) none(cfg config.Config) error {
	return fault.New(fault.Unavailable, "no node is running on %s", cfg.DataDir).WithHint("start one: orch serve")
}
