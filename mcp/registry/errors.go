package registry

import (
	"errors"

	"github.com/orch-dev/orch/fault"
)

// The errors of the S1 rules (S1-080), and additional ones. Errors that the registry returns have a code of package fault; use
// errors.Is to match these.
var (
	ErrToolNotFound     = errors.New("mcp: tool not found in registry")
	ErrToolDisabled     = errors.New("mcp: tool is administratively disabled")
	ErrNoConfigDirs     = errors.New("mcp: no config directories found or accessible")
	ErrSchemaLoadFailed = errors.New("mcp: failed to load MCP config schema")
	ErrCloseTimeout     = errors.New("mcp: timeout exceeded during close")
	ErrFileNotFound     = errors.New("mcp: config file not found")
	ErrInvalidJSON      = errors.New("mcp: invalid JSON in config file")
	ErrHandshakeFailed  = errors.New("mcp: handshake with tool failed")

	ErrNotInitialized   = errors.New("mcp: registry not initialized")
	ErrInvalidPath      = errors.New("mcp: invalid config path")
	ErrStateNotWritable = errors.New("mcp: state directory not writable")

	// ErrUnanswered means that a call was sent but not answered. Its outcome is unknown.
	ErrUnanswered = errors.New("mcp: the call was sent and not answered")
	// ErrTaskLost means that the server no longer knows a task; its outcome is unknown.
	ErrTaskLost = errors.New("mcp: the task is unknown to its server")
)

func notFound(name string) error {
	return fault.Wrap(fault.NotFound, ErrToolNotFound, "no MCP server is called "+name).WithHint("orch mcp list shows those that are defined")
}

func disabled(name string) error {
	return fault.Wrap(fault.ToolDisabled, ErrToolDisabled, "the MCP server "+name+" is disabled").WithHint("orch mcp enable %s", name)
}

func uninitialized() error {
	return fault.Wrap(fault.Unavailable, ErrNotInitialized, "the registry of MCP servers has not been started")
}

func closed() error {
	return fault.New(fault.Unavailable, "the registry of MCP servers is closed")
}

func invalidPath(path, message string) error {
	return fault.Wrap(fault.ValidationError, ErrInvalidPath, message).WithField("ORCH_MCP_PATH").
		WithHint("a list of directories, separated as in PATH; got %q", path)
}
