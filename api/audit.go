package api

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/audit"
)

const (
	// DefaultActs is the default of AuditRequest.Limit.
	DefaultActs = 100
	// MaxActs is the maximum of AuditRequest.Limit and of AuditEntriesRequest.Limit.
	MaxActs = 1000
)

// Audits are the methods about the audit stream of the node.
type Audits interface {
	// Audit returns the acts that a filter selects, the newest last, page by page. Errors: VALIDATION_ERROR, DATA_LOSS.
	Audit(ctx context.Context, r AuditRequest) (AuditReply, error)
	// AuditEntries returns the entries as they are stored, from the oldest on, page by page. audit.Verifier checks them.
	AuditEntries(ctx context.Context, r AuditEntriesRequest) (AuditEntriesReply, error)
}

// AuditRequest asks for acts. Without Before, it asks for the newest ones.
type AuditRequest struct {
	audit.Filter

	// Before selects acts with a lower number: the Next of the previous page.
	Before uint64 `json:"before,omitempty"`
	// Limit is 1 to MaxActs, by default DefaultActs.
	Limit int `json:"limit,omitempty"`
}

// AuditReply is a page of acts, the newest last. Next is the Before of the page with older ones, 0 at the end.
type AuditReply struct {
	Acts []audit.View `json:"acts"`
	Next uint64       `json:"next,omitempty"`
}

// AuditEntriesRequest asks for the entries after a number; 0 is the beginning. Limit is 1 to MaxActs, which is the default.
type AuditEntriesRequest struct {
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// AuditEntriesReply is a page of entries. The anchor is the beginning of the whole stream. Next is the After of the following page, 0 at
// the end.
type AuditEntriesReply struct {
	audit.Anchor

	Entries []json.RawMessage `json:"entries"`
	Next    uint64            `json:"next,omitempty"`
}
