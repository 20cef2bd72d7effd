// Package registry connects orch to external MCP servers (S1 rules).
//
// The registry finds the definitions of servers in directories, checks them, maintains one connection to each enabled server,
// monitors its health, and applies a changed definition without failing calls in flight. A server is a child process (stdio) or
// a URL (Streamable HTTP). Both generations of the protocol are supported: 2025-11-25 and earlier ("older"), and 2026-07-28
// ("newer").
//
// Call calls tools. Messages that the SDK would decode incompletely (tasks, results with fields of later versions) are sent
// under an alias of their method, and returned unchanged. A server may turn a call into a task, or ask questions during the
// call; both can be stored and continued later, even by another process.
//
// Everything that a server sends is untrusted data. The environment of a child process contains only PATH, HOME and the variables
// in its definition. The values of secret variables never appear in logs, errors, reports or arguments of processes.
package registry

import (
	"context"
	"time"
)

// MCPRegistry manages the lifecycle of connections to MCP servers. In the names of its types and errors, "tool" means an
// MCP server, as in the S1 rules (S1-001).
type MCPRegistry interface {
	// Init discovers and connects all servers. It returns the number of connected servers. It returns ErrSchemaLoadFailed,
	// ErrInvalidPath, ErrStateNotWritable, or ErrNoConfigDirs. After ErrNoConfigDirs the registry is usable: it has no servers,
	// and finds a directory that is created later.
	Init(ctx context.Context) (int, error)
	// Close closes all connections, after waiting up to timeout for calls in flight. It returns ErrCloseTimeout if calls were
	// still running then; the connections are closed nevertheless.
	Close(ctx context.Context, timeout time.Duration) error
	// Reload reads the directories again. It returns the number of connected servers among those that are new or changed.
	Reload(ctx context.Context) (int, error)
	// List returns all servers, sorted by name. It returns ErrNotInitialized before Init.
	List(ctx context.Context) ([]MCPTool, error)
	// Get returns one server. It returns ErrToolNotFound for an unknown name.
	Get(ctx context.Context, name string) (MCPTool, error)
	// Enable enables a server persistently and connects it. A server that cannot be reached becomes Degraded; that is not an
	// error. Enable returns ErrToolNotFound for an unknown name.
	Enable(ctx context.Context, name string) error
	// Disable disables a server persistently and disconnects it; calls of its tools fail with ErrToolDisabled. Disable returns
	// ErrToolNotFound for an unknown name.
	Disable(ctx context.Context, name string) error
	// Validate checks files against the schema and returns all problems of all files. Its error joins ErrFileNotFound and
	// ErrInvalidJSON for files that could not be checked.
	Validate(ctx context.Context, paths ...string) ([]SchemaError, error)
	// Test opens a separate connection to a server, pings the server and closes the connection. It returns ErrToolNotFound, or
	// ErrHandshakeFailed together with the report.
	Test(ctx context.Context, name string) (MCPHealthReport, error)
}

// Status is the state of a server (S1-083).
type Status string

// The states of a server.
const (
	// Ready servers are connected and answer.
	Ready Status = "ready"
	// Degraded servers do not answer, or lack capabilities that their definition requires. Connecting is retried.
	Degraded Status = "degraded"
	// Offline servers are disabled, or their circuit breaker is open.
	Offline Status = "offline"
)

// MCPTool is the state of a server. It is a copy, so that changing it has no effect on the registry.
type MCPTool struct {
	Name string `json:"name"`
	// Config is the definition with secrets masked.
	Config MCPConfig `json:"config"`
	// Source is the absolute path of the file that contains the definition.
	Source  string         `json:"source"`
	Status  Status         `json:"status"`
	Enabled bool           `json:"enabled"`
	Breaker CircuitBreaker `json:"circuit_breaker"`
	Metrics Metrics        `json:"metrics"`
	// Tools is the number of tools that the server offers.
	Tools int `json:"tools"`
	// LastHealthCheck is the time of the last attempt to connect or ping; zero if there was none.
	LastHealthCheck time.Time `json:"last_health_check,omitzero"`
	LastError       string    `json:"last_error,omitempty"`
}

// BreakerState is the state of a circuit breaker.
type BreakerState string

// The states of a circuit breaker.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half-open"
)

// CircuitBreaker pauses attempts to connect to a server that fails repeatedly.
type CircuitBreaker struct {
	State BreakerState `json:"state"`
	// Failures and Successes count consecutive failures and successes.
	Failures    int       `json:"failures"`
	Successes   int       `json:"successes"`
	LastFailure time.Time `json:"last_failure,omitzero"`
}

// Metrics are the statistics of a server since Init. Latencies are in nanoseconds.
type Metrics struct {
	HandshakeLatency time.Duration `json:"handshake_latency"`
	Invocations      int64         `json:"invocations"`
	Successes        int64         `json:"successes"`
	Errors           int64         `json:"errors"`
	LastInvocation   time.Time     `json:"last_invocation,omitzero"`
	// AverageLatency is the average of the last 100 calls.
	AverageLatency time.Duration `json:"average_latency"`
}

// SchemaError is one problem in a definition.
type SchemaError struct {
	File string `json:"file"`
	// Line and Column locate the invalid value, from 1; columns count characters. A missing value is reported
	// at the object that lacks it.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is a JSON pointer to the invalid value, such as /command, or to the place of a missing value.
	Path    string `json:"path"`
	Message string `json:"message"`
}

// MCPHealthReport is the result of a test of a server.
type MCPHealthReport struct {
	Tool   string `json:"tool"`
	Status Status `json:"status"`
	// HandshakeLatency is in nanoseconds.
	HandshakeLatency time.Duration `json:"handshake_latency"`
	Handshake        bool          `json:"handshake"`
	ProtocolVersion  string        `json:"protocol_version,omitempty"`
	// Server is the name and version that the server reports.
	Server string `json:"server,omitempty"`
	// Capabilities are the required capabilities that the server offers, Missing those that it does not offer.
	Capabilities []string `json:"capabilities"`
	Missing      []string `json:"missing_capabilities,omitempty"`
	// Tools are the names of the server's tools.
	Tools []string `json:"tools"`
	// Stages are the completed steps of the test, in order. If the test has failed, it failed in the last step.
	Stages    []Stage   `json:"stages"`
	LastError string    `json:"last_error,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	// Stderr is the end of the stderr of the process, at most 8 KiB.
	Stderr string `json:"stderr,omitempty"`
}

// Stage is one step of a test: config, connect, initialize, tools, ping.
type Stage struct {
	Name string `json:"name"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	Error    string        `json:"error,omitempty"`
}
