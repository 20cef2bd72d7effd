package node

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/election"
	"github.com/orch-dev/orch/fault"
)

// stores are the methods about the store of a node. They implement api.Stores.
type stores struct {
	store *bus.Store
	// members lists the nodes of the cluster; nil without one.
	members func(ctx context.Context) ([]election.View, error)
}

var _ api.Stores = stores{}

// StoreVersion implements api.Stores.
func (s stores) StoreVersion(ctx context.Context, _ api.StoreVersionRequest) (api.StoreVersion, error) {
	v, err := s.store.Version(ctx)
	if err != nil {
		return api.StoreVersion{}, err
	}
	members, err := s.versions(ctx)
	return api.StoreVersion{Version: v.Version, Known: v.Known, Needs: v.Needs, Writer: v.Writer, Members: members}, err
}

// FinalizeStore implements api.Stores.
func (s stores) FinalizeStore(ctx context.Context, r api.FinalizeStoreRequest) (api.StoreVersion, error) {
	if !r.Force {
		if err := s.checkMembers(ctx); err != nil {
			return api.StoreVersion{}, err
		}
	}
	if err := s.store.RaiseVersion(ctx, bus.StoreVersion); err != nil {
		return api.StoreVersion{}, err
	}
	return s.StoreVersion(ctx, api.StoreVersionRequest{})
}

// versions returns the versions of the nodes of the cluster.
func (s stores) versions(ctx context.Context) ([]api.MemberVersion, error) {
	if s.members == nil {
		return nil, nil
	}
	members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]api.MemberVersion, len(members))
	for i, m := range members {
		list[i] = api.MemberVersion{Name: m.Name(), Active: m.Active, Version: m.Version, Known: m.Store}
	}
	return list, nil
}

// checkMembers returns CONFLICT if nodes stand by that could not open the store any more.
func (s stores) checkMembers(ctx context.Context) error {
	members, err := s.versions(ctx)
	if err != nil {
		return err
	}
	older := slices.DeleteFunc(members, func(m api.MemberVersion) bool { return m.Active || m.Known >= bus.StoreVersion })
	if len(older) == 0 {
		return nil
	}
	names := make([]string, len(older))
	for i, m := range older {
		names[i] = m.Name + " (" + m.Version + ")"
	}
	return fault.New(fault.Conflict, "nodes stand by that could not take over any more, because they know no store of version %d: %s", bus.StoreVersion, strings.Join(names, ", ")).
		WithReason(api.ReasonOlderNodes).WithHint("upgrade or stop them first; --force finalizes the store all the same")
}
