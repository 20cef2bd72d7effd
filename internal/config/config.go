// Package config holds the settings of orch: one table of keys, from which files, environment
// variables, flags and their documentation follow.
//
// A key has the same name everywhere: data_dir in a file, ORCH_DATA_DIR in the environment,
// --data-dir on the command line. The command line goes before the environment, the environment
// before ./.orch/config.yaml, that before ~/.orch/config.yaml, and that before the default.
package config

import (
	"os"
	"path/filepath"
	"time"
)

// Config is the settings of one run of the program. Its values are checked, its paths absolute.
type Config struct {
	// DataDir holds the log, the keys and the lock of a node.
	DataDir string
	// Root is the directory that tools are confined to.
	Root string
	// Server is the URL of a node elsewhere; "" finds the node of DataDir.
	Server string
	// NATS is the URL of an external NATS server; "" means the embedded one.
	NATS string
	// IdentityToken says where the token lies as whose identity commands speak to a node.
	IdentityToken Secret
	// NATSCreds is the credentials file for NATS.
	NATSCreds string
	// Replicas is on how many servers of NATS each stream is.
	Replicas int
	// Durability is fsync or relaxed.
	Durability string
	// Concurrency is the number of calls that a worker runs at the same time.
	Concurrency int
	// Queues are those that the worker serves.
	Queues []string
	// Lease is the time without a heartbeat after which a call is given up.
	Lease time.Duration
	// MaxDeliveries bounds how often a call is handed out again after it has lost its worker.
	MaxDeliveries int
	// MaxSpawned bounds the child tasks that the calls of one task start.
	MaxSpawned int
	// MaxOpen bounds the open tasks of a node, MaxOpenEach those of one requestor.
	MaxOpen, MaxOpenEach int
	// RetainWorkspaces and RetainFailed are the days that workspaces of archived tasks stay, of those that are DONE and of
	// others; 0 is for ever.
	RetainWorkspaces, RetainFailed int
	// RetainTasks and RetainFailedTasks are the days that archived tasks stay, those that are DONE and others; 0 is for ever.
	RetainTasks, RetainFailedTasks int
	// MaxStore is the size in MiB from which on the store of the embedded server takes no more; 0 is none.
	MaxStore int
	// MinFree is the space in MiB that it leaves free on its disk; 0 is 2 % of the disk, at most 256.
	MinFree int
	// Paused starts the node without starting calls.
	Paused bool
	// ReadOnly refuses every call that changes something.
	ReadOnly bool
	// Policy is the policy file; "" is none.
	Policy string
	// Agents are the agents that are commands, by type.
	Agents map[string]Agent
	// FourEyes keeps people from deciding about what their own tasks ask.
	FourEyes bool
	// Sandbox is required, enforce, best-effort or off. SandboxRead and SandboxWrite are further paths for the
	// programs that tools start.
	Sandbox                   string
	SandboxRead, SandboxWrite []string
	// ProgramPath are the folders in which programs are looked up before those of the system.
	ProgramPath []string
	// NotifyOn is what the node notifies of by itself: failed, blocked, approval; none is nothing.
	NotifyOn []string
	// Tools are the settings of the families of tools.
	Tools Tools
	// Host and Port are where the node listens; port 0 chooses a free one.
	Host string
	Port int
	// HTTP is where a node speaks MCP: an address, auto or off. SyncWait is how long a plain call waits there;
	// Writes is ask, session or allow: how sessions of MCP clients write in the root.
	Writes string
	// OutsideApprovals lets nobody approve through a client.
	HTTP             string
	SyncWait         time.Duration
	OutsideApprovals bool
	// PortableNames shows MCP clients the names of tools without dots.
	PortableNames bool
	// MCPEnabled uses the MCP servers of others, MCPProject also those that the project defines; MCPHotReload follows
	// changes of their definitions.
	MCPEnabled, MCPProject, MCPHotReload bool
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Output is text, json, jsonl or name.
	Output string
	// Dir is the working directory, Home that of the user, as in Sources.
	Dir, Home string
	// Command is what runs, such as "orch submit"; empty when it does not matter. It is no setting.
	Command string
}

// Sources is where the settings come from.
type Sources struct {
	// Flags holds the flags that were given, by key.
	Flags map[string]string
	// Getenv reads the environment; nil means that of the process.
	Getenv func(string) string
	// Dir is the working directory, Home that of the user ("" when there is none).
	Dir, Home string
}

// FileName is the path of a configuration file below the working directory and below the home.
const FileName = ".orch/config.yaml"

// Load reads all sources. Errors are VALIDATION_ERROR or INVALID_FORMAT; they name the flag, the
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
