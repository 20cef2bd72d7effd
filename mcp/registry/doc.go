// Package registry connects orch to the MCP servers of others (seed 001).
//
// It finds their definitions in directories, checks them, keeps one connection to each enabled server, watches over
// its health, and takes a changed definition over without a failed call. A server is a child process that speaks over
// stdin and stdout, or a URL that speaks Streamable HTTP; both generations of the protocol are understood.
//
// Call calls tools. What the SDK would decode and lose (tasks, results with fields of later versions) is sent under an
// alias, and kept as it comes. A call may become a task of the server, or ask; both can be kept and gone on with later, by
// another process too.
//
// What a server says is data: nothing of it is trusted here. A child process sees no environment but PATH, HOME and
// what its definition names. The values of variables never appear in logs, errors, reports or arguments of processes.
package registry

import (
	"context"
	"time"
)

// MCPRegistry manages the lifecycle of connections to MCP servers; the seed calls a server a tool (S1-001).
type MCPRegistry interface {
	// Init discovers and connects all servers. It returns how many are connected, and ErrNoConfigDirs,
	// ErrSchemaLoadFailed, ErrInvalidPath or ErrStateNotWritable. After ErrNoConfigDirs the registry works: it is
	// empty, and a directory that appears later is found.
	Init(ctx context.Context) (int, error)
	// Close ends all connections. It waits up to timeout for calls in flight: ErrCloseTimeout when that was too
	// short; the connections are closed all the same.
	Close(ctx context.Context, timeout time.Duration) error
	// Reload reads the directories again and returns how many servers are new or changed, and connected.
	Reload(ctx context.Context) (int, error)
	// List returns all servers, sorted by name. ErrNotInitialized before Init.
	List(ctx context.Context) ([]MCPTool, error)
	// Get returns one server. ErrToolNotFound when there is none of the name.
	Get(ctx context.Context, name string) (MCPTool, error)
	// Enable lets a server be used, now and after restarts. ErrToolNotFound when there is none of the name. A server
	// that cannot be reached is enabled and degraded, which is no error.
	Enable(ctx context.Context, name string) error
	// Disable closes a server, now and after restarts; calls are refused with ErrToolDisabled. ErrToolNotFound when
	// there is none of the name.
	Disable(ctx context.Context, name string) error
	// Validate checks files against the schema and returns all errors of all files. ErrFileNotFound, ErrInvalidJSON
	// (joined) tell of files that could not be checked.
	Validate(ctx context.Context, paths ...string) ([]SchemaError, error)
	// Test opens a connection of its own, measures it and closes it. ErrToolNotFound, ErrHandshakeFailed; the report
	// comes with the latter too.
	Test(ctx context.Context, name string) (MCPHealthReport, error)
}

// Status is how a server stands (S1-083).
type Status string

// The states of a server.
const (
	// Ready servers are connected and answer.
	Ready Status = "ready"
	// Degraded servers do not answer, or do not offer what their definition promises; the connection is tried again.
	Degraded Status = "degraded"
	// Offline servers are disabled, or have failed so often that they are left alone for a while.
	Offline Status = "offline"
)

// MCPTool is a server as the registry sees it. It is a copy: changing it changes nothing.
type MCPTool struct {
	Name string `json:"name"`
	// Config is the definition with secrets masked.
	Config MCPConfig `json:"config"`
	// Source is the file of the definition, an absolute path.
	Source  string         `json:"source"`
	Status  Status         `json:"status"`
	Enabled bool           `json:"enabled"`
	Breaker CircuitBreaker `json:"circuit_breaker"`
	Metrics Metrics        `json:"metrics"`
	// Tools counts what the server offers.
	Tools int `json:"tools"`
	// LastHealthCheck is zero when there was none.
	LastHealthCheck time.Time `json:"last_health_check,omitzero"`
	LastError       string    `json:"last_error,omitempty"`
}

// BreakerState is how a circuit breaker stands.
type BreakerState string

// The states of a circuit breaker.
const (
	BreakerClosed   BreakerState = "closed"
	BreakerOpen     BreakerState = "open"
	BreakerHalfOpen BreakerState = "half-open"
)

// CircuitBreaker leaves a server alone that fails again and again.
type CircuitBreaker struct {
	State BreakerState `json:"state"`
	// Failures and Successes count those in a row.
	Failures    int       `json:"failures"`
	Successes   int       `json:"successes"`
	LastFailure time.Time `json:"last_failure,omitzero"`
}

// Metrics are figures of a server since Init. Latencies are in nanoseconds.
type Metrics struct {
	HandshakeLatency time.Duration `json:"handshake_latency"`
	Invocations      int64         `json:"invocations"`
	Successes        int64         `json:"successes"`
	Errors           int64         `json:"errors"`
	LastInvocation   time.Time     `json:"last_invocation,omitzero"`
	// AverageLatency is that of the last 100 calls.
	AverageLatency time.Duration `json:"average_latency"`
}

// SchemaError is one thing that is wrong with a definition.
type SchemaError struct {
	File string `json:"file"`
	// Line and Column are those of the value at fault, from 1; columns count characters. What is missing is reported
	// at the object that lacks it.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is a JSON pointer, such as /command; that of something missing says where it belongs.
	Path    string `json:"path"`
	Message string `json:"message"`
}

// MCPHealthReport is what a test of a server found.
type MCPHealthReport struct {
	Tool   string `json:"tool"`
	Status Status `json:"status"`
	// HandshakeLatency is in nanoseconds.
	HandshakeLatency time.Duration `json:"handshake_latency"`
	Handshake        bool          `json:"handshake"`
	ProtocolVersion  string        `json:"protocol_version,omitempty"`
	// Server is the name and version that the server gives itself.
	Server string `json:"server,omitempty"`
	// Capabilities are those of the definition that the server offers, Missing those that it does not.
	Capabilities []string `json:"capabilities"`
	Missing      []string `json:"missing_capabilities,omitempty"`
	// Tools are the names of its tools.
	Tools []string `json:"tools"`
	// Stages are what was done, in order; the last one is where a failed test ended.
	Stages    []Stage   `json:"stages"`
	LastError string    `json:"last_error,omitempty"`
	Timestamp time.Time `json:"timestamp"`
	// Stderr is the end of what the process wrote there, at most 8 KiB.
	Stderr string `json:"stderr,omitempty"`
}

// Stage is one step of a test: config, connect, initialize, tools, ping.
type Stage struct {
	Name string `json:"name"`
	// Duration is in nanoseconds.
	Duration time.Duration `json:"duration"`
	Error    string        `json:"error,omitempty"`
}
