// Package config defines the settings of orch. One table of keys determines files, environment variables, flags and
// their documentation.
//
// A key has the same name everywhere: data_dir in a file, ORCH_DATA_DIR in the environment, --data-dir on the command
// line. The command line takes precedence over the environment, the environment over ./.orch/config.yaml, that over
// ~/.orch/config.yaml, and that over the default.
package config

import (
	"os"
	"path/filepath"
	"time"

	"github.com/orch-dev/orch/retention"
)

// Config contains the settings of one run of the program. Its values are validated, its paths absolute.
type Config struct {
	// DataDir is the directory of the log, the keys and the lock of a node.
	DataDir string
	// Root is the directory that tools are confined to.
	Root string
	// Server is the URL of a remote node; "" means the node of DataDir.
	Server  string
	Storage Storage
	// IdentityToken refers to the token with which commands authenticate to a node.
	IdentityToken Secret
	Worker        Worker
	Limits        Limits
	Retention     Retention
	// Paused starts the node without starting calls.
	Paused      bool
	Confinement Confinement
	// Agents are the agents implemented by commands, by type.
	Agents map[string]Agent
	// Models are the language models that agent steps can ask.
	Models Models
	// CallLimits bound how many calls start in a time or run at the same time.
	CallLimits []CallLimit
	// Traces says where the spans of tasks go.
	Traces Traces
	// NotifyOn are the events about which the node sends notifications: failed, blocked, approval; or none.
	NotifyOn []string
	// Tools are the settings of the families of tools.
	Tools Tools
	MCP   MCP
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Output is text, json, jsonl or name.
	Output string
	// Dir is the working directory, Home that of the user, as in Sources.
	Dir, Home string
	// Command is the running command, such as "orch submit"; empty when it does not matter. It is not a setting.
	Command string
}

// Storage is where the log is and how it is stored.
type Storage struct {
	// NATS is the URL of an external NATS server; "" means the embedded one.
	NATS string
	// NATSCreds is the credentials file for NATS.
	NATSCreds string
	// Replicas is the number of NATS servers that store each stream.
	Replicas int
	// Durability is fsync or relaxed.
	Durability string
	// Host and Port are where the node listens; port 0 chooses a free one.
	Host string
	Port int
	// MaxStore bounds the store of the embedded server, in MiB; 0 means no limit.
	MaxStore int
	// MinFree is the space that the store leaves free on its disk, in MiB; 0 means 2 % of the disk, at most 256.
	MinFree int
}

// Limits bound the tasks of a node.
type Limits struct {
	// Lease is how long a call may go without a heartbeat.
	Lease time.Duration
	// MaxDeliveries bounds how often a call is delivered again after its worker was lost.
	MaxDeliveries int
	// MaxSpawned bounds the child tasks that calls of one task spawn.
	MaxSpawned int
	// MaxOpen bounds the open tasks of a node, MaxOpenEach those of one requestor.
	MaxOpen, MaxOpenEach int
}

// Retention is how long what is finished stays.
type Retention struct {
	// RetainWorkspaces and RetainFailed are how many days workspaces of archived tasks are kept, for tasks that are
	// DONE and for others; 0 means forever.
	RetainWorkspaces, RetainFailed int
	// RetainTasks and RetainFailedTasks are how many days archived tasks are kept, those that are DONE and others; 0
	// means forever.
	RetainTasks, RetainFailedTasks int
	// Rules are for the tasks that they match. The first one that matches counts instead of the days above.
	Rules []retention.Rule
	// ArchiveTo is where tasks are archived before they are removed: a directory or s3://BUCKET/PREFIX; "" for nowhere.
	ArchiveTo string
	// RetainAudit is how many days entries of the audit stream are kept; 0 means forever.
	RetainAudit int
}

// Worker configures the worker of a node or of `orch worker`.
type Worker struct {
	// Concurrency is the number of calls that a worker runs at the same time.
	Concurrency int
	// Queues are the queues that the worker serves.
	Queues []string
	// Metrics is the address at which orch worker serves its metrics; empty for none. Only its flag sets it.
	Metrics string
}

// Confinement is what calls may do.
type Confinement struct {
	// Policy is the policy file; "" for none.
	Policy string
	// FourEyes forbids people to decide approvals of their own tasks.
	FourEyes bool
	// ReadOnly refuses every call that changes something.
	ReadOnly bool
	// Sandbox is required, enforce, best-effort or off. SandboxRead and SandboxWrite are further paths for the
	// programs that tools start.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are folders in which programs are looked up before the system's folders.
	ProgramPath []string
}

// MCP configures the MCP server of a node and the external MCP servers that it uses.
type MCP struct {
	// HTTP is where a node serves MCP: an address, auto or off. SyncWait is how long a plain call waits there.
	// OutsideApprovals forbids approvals through a client.
	HTTP     string
	SyncWait time.Duration
	// PublicURL is the address at which people reach the page; empty is the address of HTTP.
	PublicURL        string
	OutsideApprovals bool
	// Writes is the mode in which sessions of MCP clients write in the root: ask, session or allow.
	Writes string
	// PortableNames shows tool names without dots to MCP clients.
	PortableNames bool
	// MCPEnabled enables outside MCP servers, MCPProject also those that the project defines. MCPHotReload applies
	// changes of their definitions.
	MCPEnabled, MCPProject, MCPHotReload bool
}

// Sources are the sources of the settings.
type Sources struct {
	// Flags are the flags of the command line, by key.
	Flags map[string]string
	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string
	// Dir is the working directory, Home that of the user ("" when there is none).
	Dir, Home string
}

// FileName is the path of a configuration file below the working directory and below the home.
const FileName = ".orch/config.yaml"

// Load loads the settings from all sources. Errors are VALIDATION_ERROR or INVALID_FORMAT; they name the flag, the
// variable, or file:line:col.
func Load(s Sources) (Config, error) {
	c := Config{Dir: s.Dir, Home: s.Home}
	if s.Getenv == nil {
		s.Getenv = os.Getenv
	}
	for _, k := range Keys() {
		if err := k.set(&c, k.Default, place{what: "default of " + k.Name, dir: s.Dir, home: s.Home}); err != nil {
			return Config{}, err
		}
	}
	if err := loadFiles(&c, s); err != nil {
		return Config{}, err
	}
	for _, k := range Keys() {
		if text := s.Getenv(k.Env()); text != "" {
			if err := k.set(&c, text, place{what: k.Env(), dir: s.Dir, home: s.Home}); err != nil {
				return Config{}, err
			}
		}
		if text, given := s.Flags[k.Name]; given {
			if err := k.set(&c, text, place{what: "--" + k.Flag(), dir: s.Dir, home: s.Home}); err != nil {
				return Config{}, err
			}
		}
	}
	return c, c.Tools.check()
}

// loadFiles applies the file of the user, then that of the project.
func loadFiles(c *Config, s Sources) error {
	seen := ""
	for _, dir := range []string{s.Home, s.Dir} {
		if dir == "" || dir == seen {
			continue
		}
		seen = dir
		if err := loadFile(c, filepath.Join(dir, FileName), dir, s.Home); err != nil {
			return err
		}
	}
	return nil
}
