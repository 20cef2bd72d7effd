package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/cmd/orch/screen"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := c.storeVersion(cmd.Context())
			if err != nil {
				return err
			}
			return c.showStoreVersion(v)
		},
	}
	var force bool
	finalize := &cobra.Command{
		Use:   "finalize",
		Short: "Keep older versions of orch from opening the store from now on",
		Long: `Keep older versions of orch from opening the store from now on, also while a node runs. After that the way back to an older
orch is a backup that it has made. In a cluster it is refused while a node of an older version stands by, which could no longer take over.`,
		Example: "  orch upgrade finalize\n  orch upgrade finalize --server nats://node.example:4222",
		Args:    takes(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.finalize(cmd.Context(), force) },
	}
	finalize.Flags().BoolVar(&force, "force", false, "also while nodes of an older version stand by")
	cmd.AddCommand(finalize)
	return cmd
}

// storeVersion returns the version of the store in the data directory, or of the store of a node elsewhere.
func (c *doctorCommands) storeVersion(ctx context.Context) (v api.StoreVersion, err error) {
	if c.cfg.Server == "" && c.cfg.Storage.NATS == "" {
		file, err := c.nodes.StoreVersion(c.cfg)
		return versionOf(file), err
	}
	s, err := c.nodes.Dial(ctx, c.cfg)
	if err != nil {
		return v, err
	}
	err = useSession(ctx, s, func(s session) error {
		v, err = s.StoreVersion(ctx, api.StoreVersionRequest{})
		return err
	})
	return v, err
}

// versionOf returns the version of a store in a data directory as a node says it.
func versionOf(v bus.VersionInfo) api.StoreVersion {
	return api.StoreVersion{Version: v.Version, Known: v.Known, Needs: v.Needs, Writer: v.Writer}
}

// finalize lets the running node finalize its store, and does it itself where no node runs.
func (c *doctorCommands) finalize(ctx context.Context, force bool) error {
	s, err := c.nodes.Dial(ctx, c.cfg)
	switch {
	case err == nil:
		return useSession(ctx, s, func(s session) error {
			v, err := s.FinalizeStore(ctx, api.FinalizeStoreRequest{Force: force})
			if err != nil {
				return err
			}
			return c.showFinalized(v)
		})
	case fault.Has(err, fault.Unavailable) && c.cfg.Server == "" && c.cfg.Storage.NATS == "":
		return c.finalizeFiles(ctx)
	default:
		return err
	}
}

// finalizeFiles finalizes the store in the data directory, on which no node runs.
func (c *doctorCommands) finalizeFiles(ctx context.Context) error {
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
	return c.showFinalized(versionOf(done))
}

// showFinalized shows the version of a store that was finalized.
func (c *doctorCommands) showFinalized(v api.StoreVersion) error {
	return c.showStoreVersion(v, "older versions refuse the store from now on")
}

// showStoreVersion shows the version of a store, after some lines.
func (c *doctorCommands) showStoreVersion(v api.StoreVersion, before ...string) error {
	return c.emit(view{data: v, names: []string{v.Needs}, text: func(w io.Writer) error {
		lines := slices.Concat(before, []string{storeVersionText(v)})
		if v.Version < v.Known {
			lines = append(lines, "an older one that reads events of kinds that it does not know writes nothing",
				"to keep older versions from opening it: orch upgrade finalize")
		}
		for _, m := range v.Members {
			lines = append(lines, memberText(m, v.Known))
		}
		return writeLines(w, lines)
	}})
}

// memberText says which stores a node of a cluster can open.
func memberText(m api.MemberVersion, known int) string {
	role, knows := "stands by", "knows it"
	if m.Active {
		role = "is active"
	}
	if m.Known < known {
		knows = fmt.Sprintf("knows no store of version %d", known)
	}
	return fmt.Sprintf("%s %s: orch %s, %s", screen.Escape(m.Name), role, screen.Escape(m.Version), knows)
}

// storeVersionText describes the version of a store.
func storeVersionText(v api.StoreVersion) string {
	text := fmt.Sprintf("version %d of at most %d; orch %s and newer can open it", v.Version, v.Known, cmp.Or(v.Needs, "of that version"))
	if v.Writer != "" {
		text += "; the last to open it was orch " + v.Writer
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
		return []finding{bad(part, storeVersionText(versionOf(v)), "use orch "+cmp.Or(v.Needs, "of that version")+" or a newer orch; nothing is damaged")}
	default:
		return []finding{fine(part, "%s", storeVersionText(versionOf(v)))}
	}
}
