package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/classify/secrets"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/retention"
)

// Key is one setting.
type Key struct {
	// Name is the key in a file, such as data_dir.
	Name string
	// Default is the value as text.
	Default string
	// Usage is one line, without a full stop.
	Usage string
	// Choices are the allowed values, for a list of each element; nil allows any.
	Choices []string
	// Node is true for settings that only matter where a node or a worker runs.
	Node bool
	// Worker is true for node settings that also matter for a standalone worker.
	Worker bool
	// Personal is true for settings that a project's file must not set: a repository from somebody else must not choose
	// the server, the store or the listener of its user.
	Personal bool

	flag string
	min  int
	max  int
	path bool
	// place is set for paths that may be buckets as well.
	place bool
	url   bool
	// check returns what is wrong with a value, or with an element of a list, or "".
	check func(text string) string
	// field returns a pointer to the value: *string, *int, *bool, *time.Duration, *[]string, *Secret or
	// *map[string]Secret, *map[string]Agent, *Models, *[]CallLimit or *[]retention.Rule.
	field func(*Config) any
}

// Keys returns the one table of settings, in the order of their documentation.
func Keys() []Key {
	return slices.Concat(generalKeys(), nodeKeys(), agentKeys(), retentionKeys(), s3Keys(), traceKeys(), faceKeys(), sandboxKeys(), toolKeys())
}

// generalKeys returns the keys that matter for every command.
func generalKeys() []Key {
	return []Key{
		{
			Name: "data_dir", Default: "~/.orch/data", path: true, Personal: true, Usage: "directory of the log and the keys of a node",
			field: func(c *Config) any { return &c.DataDir },
		},
		{
			Name: "root", Default: ".", path: true, Usage: "directory that tools are confined to",
			field: func(c *Config) any { return &c.Root },
		},
		{
			Name: "server", url: true, Personal: true, Usage: "URL of a node elsewhere",
			field: func(c *Config) any { return &c.Server },
		},
		{
			Name: "nats", url: true, Personal: true, Usage: "URL of an external NATS server instead of the embedded one",
			field: func(c *Config) any { return &c.Storage.NATS },
		},
		{
			Name: "nats_creds", path: true, Personal: true, Usage: "credentials file for NATS",
			field: func(c *Config) any { return &c.Storage.NATSCreds },
		},
		{
			Name: "identity_token", Personal: true, Usage: "where the token lies as whose identity commands speak to a node: env:NAME or file:PATH; empty is the operator of the node",
			field: func(c *Config) any { return &c.IdentityToken },
		},
		{
			Name: "output", Default: "text", Choices: []string{"text", "json", "jsonl", "name"}, Usage: "form of the output",
			field: func(c *Config) any { return &c.Output },
		},
		{
			Name: "log_level", Default: "warn", Choices: []string{"debug", "info", "warn", "error"}, Usage: "least level of the log on stderr",
			field: func(c *Config) any { return &c.LogLevel },
		},
	}
}

// nodeKeys returns the keys that matter only for a node or a worker.
func nodeKeys() []Key {
	return []Key{
		{
			Name: "replicas", Default: "1", min: 1, max: 5, Node: true,
			Usage: "servers of an external NATS cluster that hold each stream; 3 survives the loss of one",
			field: func(c *Config) any { return &c.Storage.Replicas },
		},
		{
			Name: "durability", Default: "fsync", Choices: []string{"fsync", "relaxed"}, Node: true,
			Usage: "what survives a power loss: everything acknowledged, or all but the last 100 ms",
			field: func(c *Config) any { return &c.Storage.Durability },
		},
		{
			Name: "concurrency", Default: "5", max: 10_000, Node: true, Worker: true,
			Usage: "calls that run at the same time; a node with 0 leaves all of them to workers",
			field: func(c *Config) any { return &c.Worker.Concurrency },
		},
		{
			Name: "queues", Default: "default", flag: "queue", Node: true, Worker: true, Usage: "queues that the worker serves, separated by commas",
			field: func(c *Config) any { return &c.Worker.Queues },
		},
		{
			Name: "lease", Default: "15s", Node: true, Usage: "time without a heartbeat after which a call is given up",
			field: func(c *Config) any { return &c.Limits.Lease },
		},
		{
			Name: "max_deliveries", Default: "10", min: 1, max: 1000, Node: true, Usage: "workers that a call may lose before it is given up",
			field: func(c *Config) any { return &c.Limits.MaxDeliveries },
		},
		{
			Name: "max_spawned", Default: "16", min: 1, max: 1000, Node: true, Usage: "child tasks that the calls of one task start; more are refused",
			field: func(c *Config) any { return &c.Limits.MaxSpawned },
		},
		{
			Name: "max_open", Default: "250000", min: 1, max: 10_000_000, Node: true, Usage: "open tasks of the node; more are refused",
			field: func(c *Config) any { return &c.Limits.MaxOpen },
		},
		{
			Name: "max_open_each", Default: "150000", min: 1, max: 10_000_000, Node: true, Usage: "open tasks of one requestor; more are refused",
			field: func(c *Config) any { return &c.Limits.MaxOpenEach },
		},
		{
			Name: "max_store", Default: "0", max: 1 << 30, Node: true, Personal: true, Usage: "MiB that the store may have, archive included; 0 is what the disk has",
			field: func(c *Config) any { return &c.Storage.MaxStore },
		},
		{
			Name: "min_free", Default: "0", max: 1 << 30, Node: true, Personal: true, Usage: "MiB that stay free on the disk of the store; 0 is 2 % of it, at most 256",
			field: func(c *Config) any { return &c.Storage.MinFree },
		},
		{
			Name: "paused", Default: "false", Node: true, Usage: "start without starting calls",
			field: func(c *Config) any { return &c.Paused },
		},
		{
			Name: "four_eyes", Default: "false", Node: true, Personal: true, Usage: "who submitted a task does not decide about its approvals",
			field: func(c *Config) any { return &c.Confinement.FourEyes },
		},
		{
			Name: "read_only", Default: "false", Node: true, Worker: true, Usage: "refuse every call that changes something",
			field: func(c *Config) any { return &c.Confinement.ReadOnly },
		},
		{
			Name: "policy", path: true, Node: true, Worker: true, Personal: true, Usage: "policy file with rules that deny and ask",
			field: func(c *Config) any { return &c.Confinement.Policy },
		},
		{
			Name: "host", Default: "127.0.0.1", Node: true, Personal: true, Usage: "address that the node listens on",
			field: func(c *Config) any { return &c.Storage.Host },
		},
		{
			Name: "port", Default: "0", max: 65_535, Node: true, Usage: "port that the node listens on; 0 chooses a free one",
			field: func(c *Config) any { return &c.Storage.Port },
		},
	}
}

// agentKeys returns the keys of agents and of the models that they ask.
func agentKeys() []Key {
	return []Key{
		{
			Name: "agents", Node: true, Worker: true, Personal: true, Usage: "agents that are commands, by type: {command, timeout, network}",
			field: func(c *Config) any { return &c.Agents },
		},
		{
			Name: "models", Node: true, Personal: true, Usage: "language models of agent steps: {providers: {NAME: {wire, url, key, headers, fields, ca, idle}}, prices: {MODEL: {input, cache_read, cache_write, output, as_of}}, budgets: [{usd, tokens, per, by, label, model}]}",
			field: func(c *Config) any { return &c.Models },
		},
		{
			Name: "call_limits", Node: true, Personal: true, Usage: "how many calls may start in a time, or run at the same time: [{tool, queue, provider, identity, key, rate, running, by}]",
			field: func(c *Config) any { return &c.CallLimits },
		},
	}
}

// retentionKeys returns the keys for removing old data.
func retentionKeys() []Key {
	return []Key{
		{
			Name: "retain_workspaces", Default: "30", max: 36_500, Node: true, Personal: true, Usage: "days that the workspace of an archived task stays that is DONE; 0 is for ever",
			field: func(c *Config) any { return &c.Retention.RetainWorkspaces },
		},
		{
			Name: "retain_failed", Default: "90", max: 36_500, Node: true, Personal: true, Usage: "days that the workspace of an archived task stays that is not DONE; 0 is for ever",
			field: func(c *Config) any { return &c.Retention.RetainFailed },
		},
		{
			Name: "retain_tasks", Default: "365", max: 36_500, Node: true, Personal: true, Usage: "days that an archived task stays that is DONE, with its history, after its end; 0 is for ever",
			field: func(c *Config) any { return &c.Retention.RetainTasks },
		},
		{
			Name: "retain_failed_tasks", Default: "730", max: 36_500, Node: true, Personal: true, Usage: "days that an archived task stays that is not DONE; 0 is for ever",
			field: func(c *Config) any { return &c.Retention.RetainFailedTasks },
		},
		{
			Name: "retain", Node: true, Personal: true, Usage: "rules for tasks by label and name, the first one that matches counts: [{where: {label, name}, done, failed, workspaces, failed_workspaces}]",
			field: func(c *Config) any { return &c.Retention.Rules },
		},
		{
			Name: "retain_audit", Default: "730", max: 36_500, Node: true, Personal: true, Usage: "days that an entry of the audit stream stays; 0 is for ever",
			field: func(c *Config) any { return &c.Retention.RetainAudit },
		},
	}
}

// faceKeys returns the keys of the faces for programs.
func faceKeys() []Key {
	return []Key{
		{
			Name: "http", Default: "auto", Node: true, Personal: true,
			Usage: "address at which orch serve speaks MCP, such as 127.0.0.1:7424, or off; auto is that one, if it is free",
			field: func(c *Config) any { return &c.MCP.HTTP },
		},
		{
			Name: "public_url", Node: true, Personal: true, check: publicURL,
			Usage: "address at which people reach orch serve, such as https://orch.example.com, for the links in notifications; empty is its own",
			field: func(c *Config) any { return &c.MCP.PublicURL },
		},
		{
			Name: "sync_wait", Default: "20s", Node: true, Usage: "time that a plain tool call of an MCP client waits before it is handed back as a task",
			field: func(c *Config) any { return &c.MCP.SyncWait },
		},
		{
			Name: "portable_names", Default: "false", Node: true, Usage: "show MCP clients the names of tools with _ in place of dots, which some refuse; both names can be called",
			field: func(c *Config) any { return &c.MCP.PortableNames },
		},
		{
			Name: "writes", Default: "ask", Choices: []string{"ask", "session", "allow"}, Node: true, Personal: true,
			Usage: "how sessions of MCP clients write in the root: ask for each call, session for one question, allow for none",
			field: func(c *Config) any { return &c.MCP.Writes },
		},
		{
			Name: "outside_approvals", Default: "false", Node: true, Personal: true, Usage: "let nobody approve through an MCP client",
			field: func(c *Config) any { return &c.MCP.OutsideApprovals },
		},
		{
			Name: "mcp_enabled", Default: "true", Node: true, Worker: true, Personal: true, Usage: "use the MCP servers that are defined in ~/.orch/mcp and ORCH_MCP_PATH",
			field: func(c *Config) any { return &c.MCP.MCPEnabled },
		},
		{
			Name: "mcp_project", Default: "false", Node: true, Worker: true, Personal: true, Usage: "use those of ./.orch/mcp too, which start programs that the project names",
			field: func(c *Config) any { return &c.MCP.MCPProject },
		},
		{
			Name: "mcp_hot_reload", Default: "true", Node: true, Worker: true, Personal: true, Usage: "follow changes of their definitions while the node runs",
			field: func(c *Config) any { return &c.MCP.MCPHotReload },
		},
	}
}

// sandboxKeys returns the keys for programs that tools start.
func sandboxKeys() []Key {
	return []Key{
		{
			Name: "sandbox", Default: "enforce", Choices: []string{"required", "enforce", "best-effort", "off"}, Node: true, Worker: true, Personal: true,
			Usage: "what becomes of programs that the kernel cannot confine: refused, even where only mount namespaces are missing; refused; run behind the walls that there are; or never confined",
			field: func(c *Config) any { return &c.Confinement.Sandbox },
		},
		{
			Name: "sandbox_read", path: true, Node: true, Worker: true, Personal: true, Usage: "files and folders that the programs of tools may read and run beside those of the system",
			field: func(c *Config) any { return &c.Confinement.SandboxRead },
		},
		{
			Name: "program_path", path: true, Node: true, Worker: true, Personal: true, Usage: "folders in which the programs of tools are looked up before those of the system, such as ~/.cargo/bin",
			field: func(c *Config) any { return &c.Confinement.ProgramPath },
		},
		{
			Name: "sandbox_write", path: true, Node: true, Worker: true, Personal: true, Usage: "files and folders that the programs of tools share and may write",
			field: func(c *Config) any { return &c.Confinement.SandboxWrite },
		},
	}
}

// Flag returns the name of the flag without dashes.
func (k Key) Flag() string {
	if k.flag != "" {
		return k.flag
	}
	return strings.ReplaceAll(k.Name, "_", "-")
}

// Env returns the name of the environment variable.
func (k Key) Env() string { return "ORCH_" + strings.ToUpper(k.Name) }

// Named returns the choices without the empty one.
func (k Key) Named() []string {
	return slices.DeleteFunc(slices.Clone(k.Choices), func(choice string) bool { return choice == "" })
}

// Switch reports whether the key is a boolean, so that its flag needs no value.
func (k Key) Switch() bool {
	_, ok := k.field(new(Config)).(*bool)
	return ok
}

// names returns all keys, for hints.
func names() []string {
	var all []string
	for _, k := range Keys() {
		all = append(all, k.Name)
	}
	return all
}

// place is the origin of a value: its name for messages, and the folders for relative paths.
type place struct{ what, dir, home string }

// of returns the place of a part of the value.
func (p place) of(part string) place {
	p.what += ", " + part
	return p
}

func (p place) invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.ValidationError, format, args...).WithField(p.what)
}

// set parses text into the field of the key.
func (k Key) set(c *Config, text string, at place) error {
	switch field := k.field(c).(type) {
	case *string:
		return k.setText(field, text, at)
	case *int:
		n, err := strconv.Atoi(text)
		if err != nil || n < k.min || n > k.max {
			return at.invalid("%q is no number from %d to %d", text, k.min, k.max)
		}
		*field = n
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return at.invalid("%q is neither true nor false", text)
		}
		*field = b
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return at.invalid("%q is no duration", text).WithHint("write it as 500ms, 30s or 5m")
		}
		*field = d
	case *[]string:
		return k.setList(field, text, at)
	case *Secret:
		var err error
		*field, err = at.secret(text)
		return err
	case *map[string]Secret:
		var err error
		*field, err = at.secrets(text)
		return err
	case *Models:
		models, err := at.models(text)
		if err != nil {
			return err
		}
		*field = models
	case *[]CallLimit:
		limits, err := at.callLimits(text)
		if err != nil {
			return err
		}
		*field = limits
	case *[]retention.Rule:
		rules, err := at.retainRules(text)
		if err != nil {
			return err
		}
		*field = rules
	case *map[string]Agent:
		agents, err := parseAgents(text, at)
		if err != nil {
			return err
		}
		*field = agents
	}
	return nil
}

// setList parses comma-separated values. A list without a default may be empty.
func (k Key) setList(field *[]string, text string, at place) error {
	parts := split(text)
	if len(parts) == 0 && k.Default != "" {
		return at.invalid("it names nothing")
	}
	for i, part := range parts {
		if err := k.setText(&parts[i], part, at); err != nil {
			return err
		}
	}
	*field = parts
	return nil
}

func (k Key) setText(field *string, text string, at place) error {
	switch {
	case k.Choices != nil && !slices.Contains(k.Choices, text):
		err := at.invalid("%q is none of %s", text, strings.Join(k.Named(), ", "))
		if hint := spell.Hint(text, k.Choices); hint != "" {
			err = err.WithHint("%s", hint)
		}
		return err
	case k.url && text != "":
		if u, err := url.Parse(text); err != nil || u.Scheme == "" || u.Host == "" {
			return at.invalid("%q is no URL", secrets.URL(text)).WithHint("write it as nats://host:4222")
		}
	case k.check != nil && text != "":
		if why := k.check(text); why != "" {
			return at.invalid("%s", why)
		}
	case (k.path || k.place && !isBucket(text)) && text != "":
		var err error
		if text, err = at.resolve(text); err != nil {
			return err
		}
	}
	*field = text
	return nil
}

// resolve makes a path absolute: ~/ is the home, other paths are relative to p.dir.
func (p place) resolve(path string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	if ok && (rest == "" || rest[0] == '/') {
		if p.home == "" {
			return "", p.invalid("%q needs a home directory, and there is none", path).WithHint("set HOME, or give an absolute path")
		}
		return filepath.Join(p.home, rest), nil
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path), nil
	}
	return filepath.Join(p.dir, path), nil
}

func split(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
