package node

import (
	"context"
	"errors"
	"strings"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
)

// RestoreCluster makes the store of a cluster of a backup, on servers that have none. It holds the lease of the active node meanwhile. A node
// that stands by would run the tasks of the backup before anybody has looked at them, so none may run. Errors: CONFLICT if a node
// runs or there is a store, and those of bus.Conn.RestoreCluster.
func RestoreCluster(ctx context.Context, cfg Config, file, actor string, progress func(step string)) (r bus.Restored, err error) {
	c, err := dial(ctx, cfg, bus.OperatorUser)
	if err != nil {
		return r, err
	}
	defer c.Close()
	seat, err := join(ctx, cfg, c, "")
	if err != nil {
		return r, err
	}
	defer seat.Leave(context.WithoutCancel(ctx))
	if err := checkAlone(ctx, seat); err != nil {
		return r, err
	}
	lease, err := seat.TryAcquire(ctx)
	if err != nil {
		return r, err
	}
	held, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-lease.Lost():
			stop()
		case <-held.Done():
		}
	}()
	act := NewFileAct("store.restore", "", map[string]string{"file": file})
	act.Actor, act.Begun = actor, true
	if err := AppendFileAct(cfg.DataDir, act); err != nil {
		return r, errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
	}
	r, err = c.RestoreCluster(held, bus.ClusterRestoreConfig{
		File: file, Progress: progress,
		Store: bus.StoreConfig{Logger: cfg.logger(), Replicas: cfg.Storage.Replicas, Program: cfg.Version, Lease: lease},
	})
	if act.Begun = false; err != nil {
		act.Error = fault.From(err)
	}
	return r, errors.Join(err, AppendFileAct(cfg.DataDir, act), lease.Release(context.WithoutCancel(ctx)))
}

// checkAlone returns CONFLICT if there are other members of the cluster.
func checkAlone(ctx context.Context, seat *election.Member) error {
	members, err := seat.Members(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range members {
		if m.ID == seat.ID() {
			continue
		}
		name := m.Name()
		if m.Active {
			name += " (active)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	return fault.New(fault.Conflict, "nodes of the cluster run: %s", strings.Join(names, ", ")).WithField("nats").
		WithHint("stop them first, and start them after the restore with --paused; nothing was changed")
}
