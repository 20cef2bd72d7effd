// Package registry connects orch to external MCP servers (S1 rules).
//
// It finds their definitions in directories, checks them, maintains one connection to each enabled server, monitors
// its health, and applies a changed definition without failing a call. A server is a child process that speaks over
// stdin and stdout, or a URL that speaks Streamable HTTP; both generations of the protocol are supported.
//
// Call calls tools. Messages that the SDK would decode incompletely (tasks, results with fields of later versions) are sent
// under an alias of their method, and returned unchanged. A call may become a task of the server, or ask questions; both can be
// stored and continued later, even by another process.
//
// Everything that a server sends is untrusted data. A child process gets no environment but PATH, HOME and
// the variables in its definition. The values of variables never appear in logs, errors, reports or arguments of processes.
package registry

import (
	"context"
	"time"
)

// MCPRegistry manages the lifecycle of connections to MCP servers; the seed calls a server a tool (S1-001).
type MCPRegistry interface {
	// Init discovers and connects all servers. It returns how many are connected. Errors: ErrNoConfigDirs,
	// ErrSchemaLoadFailed, ErrInvalidPath or ErrStateNotWritable. After ErrNoConfigDirs the registry works: it is
	// empty, and a directory created later is found.
	Init(ctx context.Context) (int, error)
	// Close closes all connections. It waits up to timeout for calls in flight: ErrCloseTimeout if that was too
	// short; the connections are closed all the same.
	Close(ctx context.Context, timeout time.Duration) error
	// Reload reads the directories again and returns how many servers are new or changed, and connected.
	Reload(ctx context.Context) (int, error)
	// List returns all servers, sorted by name. ErrNotInitialized before Init.
	List(ctx context.Context) ([]MCPTool, error)
	// Get returns one server. ErrToolNotFound if there is none of that name.
	Get(ctx context.Context, name string) (MCPTool, error)
	// Enable enables a server, also after restarts. ErrToolNotFound if there is none of that name. A server
	// that cannot be reached is enabled and degraded, which is no error.
	Enable(ctx context.Context, name string) error
	// Disable closes a server, also after restarts; calls are refused with ErrToolDisabled. ErrToolNotFound if
	// there is none of that name.
	Disable(ctx context.Context, name string) error
	// Validate checks files against the schema and returns all errors of all files. ErrFileNotFound and ErrInvalidJSON
	// (joined) report files that could not be checked.
	Validate(ctx context.Context, paths ...string) ([]SchemaError, error)
	// Test opens a separate connection, measures it and closes it. ErrToolNotFound, ErrHandshakeFailed; the report
	// is returned with the latter too.
	Test(ctx context.Context, name string) (MCPHealthReport, error)
}

// Status is the state of a server (S1-083).
type Status string

// The states of a server.
const (
	// Ready servers are connected and answer.
	Ready Status = "ready"
	// Degraded servers do not answer, or do not offer what their definition requires; connecting is retried.
	Degraded Status = "degraded"
	// Offline servers are disabled, or their circuit breaker is open.
	Offline Status = "offline"
)

// MCPTool is a server as the registry sees it. It is a copy: changes have no effect.
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
	// Tools is the number of tools that the server offers.
	Tools int `json:"tools"`
	// LastHealthCheck is zero if there was none.
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
	// Failures and Successes count consecutive ones.
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
	// Path is a JSON pointer, such as /command; for a missing value it is where the value belongs.
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
	// Capabilities are the required ones that the server offers, Missing those that it does not.
	Capabilities []string `json:"capabilities"`
	Missing      []string `json:"missing_capabilities,omitempty"`
	// Tools are the names of its tools.
	Tools []string `json:"tools"`
	// Stages are the steps of the test, in order; a failed test ended in the last one.
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
