package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
)

// StoreVersion implements nodes.
func (processNodes) StoreVersion(cfg config.Config) (bus.VersionInfo, error) {
	if err := needsDataDir(cfg); err != nil {
		return bus.VersionInfo{}, err
	}
	return bus.ReadVersion(cfg.DataDir)
}

// FinalizeStore implements nodes.
func (processNodes) FinalizeStore(cfg config.Config) (bus.VersionInfo, error) {
	if err := needsDataDir(cfg); err != nil {
		return bus.VersionInfo{}, err
	}
	return bus.Finalize(cfg.DataDir)
}

func needsDataDir(cfg config.Config) error {
	if cfg.Storage.NATS == "" && cfg.Server == "" {
		return nil
	}
	return fault.New(fault.InvalidParams, "the version of a store is that of a data directory on this machine").
		WithHint("leave out --server and --nats")
}

func newUpgrade(c *doctorCommands) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Show which orch can open the store, and whether an older one still can",
		Long: `Show which orch can open the store, and whether an older one still can.

A newer orch opens the store of an older one, and the older one can open it again until something is used that it does not
know, such as a hold, or until orch upgrade finalize.`,
		Example: "  orch upgrade\n  orch upgrade finalize",
		Args:    takes(),
		RunE: func(*cobra.Command, []string) error {
			v, err := c.nodes.StoreVersion(c.cfg)
			if err != nil {
				return err
			}
			return c.showStoreVersion(v)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "finalize",
		Short: "Keep older versions of orch from opening the store from now on",
		Long: `Keep older versions of orch from opening the store from now on, while no node runs. After that the way back to an older orch is
a backup that it has made.`,
		Example: "  orch upgrade finalize",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.finalize(cmd.Context()) },
	})
	return cmd
}

func (c *doctorCommands) finalize(ctx context.Context) error {
	if _, err := c.nodes.StoreVersion(c.cfg); err != nil { // nothing is noted where there is no store
		return err
	}
	var done bus.VersionInfo
	err := c.onFiles(ctx, node.NewFileAct("store.finalize", "", nil), func() (err error) {
		done, err = c.nodes.FinalizeStore(c.cfg)
		return err
	})
	if err != nil {
		return err
	}
	return c.showStoreVersion(done)
}

func (c *doctorCommands) showStoreVersion(v bus.VersionInfo) error {
	return c.emit(view{data: v, names: []string{v.Needs}, text: func(w io.Writer) error {
		lines := []string{storeVersionText(v)}
		if v.Version < v.Known {
			lines = append(lines, "an older one that reads events of kinds that it does not know writes nothing",
				"older versions can no longer open it after: orch upgrade finalize")
		}
		return writeLines(w, lines)
	}})
}

// storeVersionText describes the version of a store.
func storeVersionText(v bus.VersionInfo) string {
	text := fmt.Sprintf("version %d of at most %d; orch %s and newer can open it", v.Version, v.Known, cmp.Or(v.Needs, "of that version"))
	if v.Writer != "" {
		text += "; orch " + v.Writer + " was the last that has"
	}
	return text
}

// probeStoreVersion reports which orch can open the store. It says nothing about a store that has no version yet.
func (c *doctorCommands) probeStoreVersion() []finding {
	const part = "store version"
	v, err := c.nodes.StoreVersion(c.cfg)
	switch {
	case fault.Has(err, fault.NotFound) || fault.Has(err, fault.InvalidParams):
		return nil
	case err != nil:
		return []finding{failed(part, err, "orch verify names all that is damaged")}
	case v.Version > v.Known:
		return []finding{bad(part, storeVersionText(v), "use orch "+cmp.Or(v.Needs, "of that version")+" or a newer orch; nothing is damaged")}
	default:
		return []finding{fine(part, "%s", storeVersionText(v))}
	}
}
