package api

import (
	"context"

	"github.com/orch-dev/orch/audit"
)

// Stores are the methods about the store of the node.
type Stores interface {
	// StoreVersion says which versions of orch can open the store.
	StoreVersion(ctx context.Context, r StoreVersionRequest) (StoreVersion, error)
	// FinalizeStore makes the version of the store the newest that the node knows: programs that know only older ones refuse the store from
	// then on. It returns once that is durable. Errors: CONFLICT with ReasonOlderNodes, NEWER_STORE, DISK_FULL, UNAVAILABLE.
	FinalizeStore(ctx context.Context, r FinalizeStoreRequest) (StoreVersion, error)
}

// StoreVersionRequest asks for the version of the store.
type StoreVersionRequest struct{}

// FinalizeStoreRequest raises the version of the store.
type FinalizeStoreRequest struct {
	// Force does it although nodes of an older version stand by, which can then no longer take over.
	Force bool   `json:"force,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// StoreVersion is the version of a store.
type StoreVersion struct {
	// Version is the version of the store, and Known the newest that the node knows.
	Version int `json:"version"`
	Known   int `json:"known"`
	// Needs is the oldest release of orch that may write the store, and Writer the version that opened it last for writing, if these
	// are recorded.
	Needs  string `json:"needs,omitempty"`
	Writer string `json:"writer,omitempty"`
	// Members are the nodes of the cluster; empty for a node with its own NATS server.
	Members []MemberVersion `json:"members,omitempty"`
}

// MemberVersion is the version of a node of a cluster.
type MemberVersion struct {
	// Name is the host and the process id. Active is set for the node that is active; the others stand by.
	Name   string `json:"name"`
	Active bool   `json:"active,omitempty"`
	// Version is that of the program. Known is the newest version of a store that it can open; 0 for programs of before they said so.
	Version string `json:"version"`
	Known   int    `json:"known,omitempty"`
}

// ReasonOlderNodes is the reason of a CONFLICT: nodes of an older version stand by.
const ReasonOlderNodes = "OLDER_NODES"

// ActorFields returns the field that names who acts.
func (r *FinalizeStoreRequest) ActorFields() []*string { return []*string{&r.Actor} }

func finalizeStoreAct(r FinalizeStoreRequest) (audit.Act, bool) {
	return actOf(r.Actor, "store.finalize", "", nil)
}

// StoreVersion implements API.
func (c Client) StoreVersion(ctx context.Context, r StoreVersionRequest) (StoreVersion, error) {
	return storeVersion.send(ctx, c.transport, r)
}

// FinalizeStore implements API.
func (c Client) FinalizeStore(ctx context.Context, r FinalizeStoreRequest) (StoreVersion, error) {
	return finalizeStore.send(ctx, c.transport, r)
}
