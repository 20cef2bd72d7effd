package api

import (
	"time"

	"github.com/orch-dev/orch/fault"
)

// StatusRequest asks for the status of the node.
type StatusRequest struct{}

// StatusReply describes the node.
type StatusReply struct {
	Version string `json:"version"`
	// Identity is the authenticated caller, such as user:ada; empty for callers in the process.
	Identity   string `json:"identity,omitempty"`
	Ready      bool   `json:"ready"`
	Durability string `json:"durability"`
	// Syncing is how the log syncs commits to disk: group, always, interval or external.
	Syncing  string         `json:"syncing,omitempty"`
	Root     string         `json:"root,omitempty"`
	Open     int            `json:"open"`
	Finished int            `json:"finished"`
	Queued   map[string]int `json:"queued"`
	Running  int            `json:"running"`
	Workers  []WorkerView   `json:"workers"`
	Paused   []PauseView    `json:"paused"`
	// Store is the health of the log: "ok", or why it refuses to append. Refusing contains that reason in structured form.
	Store     string    `json:"store"`
	Refusing  *Refusal  `json:"refusing,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// Providers are the providers of models that have failed since their last answer.
	Providers []ProviderView `json:"providers,omitempty"`
	// Traces says how the export of traces stands; nil if traces are neither exported nor shown.
	Traces    *TracesView `json:"traces,omitempty"`
	MemoryMiB int         `json:"memory_mib"`
	// Storage is the space that the store uses and has; nil with an external server.
	Storage *StorageView `json:"storage,omitempty"`
	// DataDir is the data directory of the node; "" if it is the default one of its user. Server is its URL for commands on other
	// machines; "" if it listens on loopback alone. An address that stands for all, such as 0.0.0.0, is to be replaced.
	DataDir string `json:"data_dir,omitempty"`
	Server  string `json:"server,omitempty"`
	// Host is the name of the machine of the node. Instance tells the node from others: the UUID that service.instance.id of its spans is,
	// which stays while its machine and its data directory do.
	Host     string `json:"host,omitempty"`
	Instance string `json:"instance,omitempty"`
}

// StorageView describes the space of the store, in bytes.
type StorageView struct {
	// Used is the size of all streams before compression, MaxStore its limit; 0 means no limit.
	Used     int64 `json:"used"`
	MaxStore int64 `json:"max_store,omitempty"`
	// Free is the free space on the disk. Below MinFree the log accepts no appends.
	Free    int64 `json:"free"`
	MinFree int64 `json:"min_free"`
}

// TracesView describes the export of the spans of tasks to a collector.
type TracesView struct {
	// To is the address of the collector; "" for none.
	To string `json:"to,omitempty"`
	// View is the URL of a trace in a tracing backend, with {trace} in place of its id; "" for none.
	View string `json:"view,omitempty"`
	// Sent counts the spans that the collector has taken since the node started, Refused those that it has refused.
	Sent    int `json:"sent,omitempty"`
	Refused int `json:"refused,omitempty"`
	// Waiting is the number of finished tasks that are known to wait for the collector, at most about a thousand: the log has the others.
	// Oldest is when the first of them ended.
	Waiting int       `json:"waiting,omitempty"`
	Oldest  time.Time `json:"oldest,omitzero"`
	// Error is why the collector gets nothing, Hint what to do about it, FailingSince since when.
	Error        string    `json:"error,omitempty"`
	Hint         string    `json:"hint,omitempty"`
	FailingSince time.Time `json:"failing_since,omitzero"`
}

// ProviderView describes a provider of models that fails.
type ProviderView struct {
	Name string `json:"name"`
	// State is that of its circuit breaker: closed, open or half_open.
	State string `json:"state"`
	// Failures counts the failures in a row, Error is the last of them.
	Failures int    `json:"failures"`
	Error    string `json:"error"`
	// Until is when the provider is asked again, if it is not asked now.
	Until *time.Time `json:"until,omitempty"`
}

// Refusal is why the log accepts no appends.
type Refusal struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
	// Hint is what the operator can do.
	Hint string `json:"hint,omitempty"`
	// Since is when the log started to refuse; zero if that is not known.
	Since time.Time `json:"since,omitzero"`
}

// WorkerView describes a worker that has contacted the node recently.
type WorkerView struct {
	Name    string    `json:"name"`
	Queues  []string  `json:"queues"`
	Running int       `json:"running"`
	SeenAt  time.Time `json:"seen_at"`
	// Silent is set if the worker has not contacted the node for so long that it is considered offline.
	Silent bool `json:"silent,omitempty"`
}

// SetRefusal records that the log accepts no appends, and since when.
func (r *StatusReply) SetRefusal(why *fault.Error, since time.Time) {
	r.Store = why.Error()
	r.Refusing = &Refusal{Code: why.Code, Message: why.Message, Hint: why.Hint, Since: since}
}
