package archtest

// Row defines what the production code of a package may import from this module.
type Row struct {
	// Package is a folder below the root of the module; "tools/*" matches each folder directly below tools. If several
	// rows match a package, the first one counts.
	Package string
	// Imports lists the allowed folders in the form of Package. Below matches every package of a lower layer.
	Imports []string
	// Pure packages only compute: they use no operating system, network, context or clock.
	Pure bool
	// Kit packages contain test code in files that are not _test.go files. Only tests and other kits may import them.
	Kit bool
}

// Layer is a group of rows. Tests may import every package of their own layer and of lower layers.
type Layer struct {
	Name string
	Rows []Row
}

// Library defines which packages may use a library.
type Library struct {
	// Path is the prefix of the import paths.
	Path string
	// Users lists folders in the form of Row.Package.
	Users []string
	// Hidden libraries may not be used by tests of packages outside of Users. Tests may use all other libraries.
	Hidden bool
	// TestOnly libraries may be used only by tests and kits.
	TestOnly bool
}

// Table is the architecture as data.
type Table struct {
	Layers    []Layer
	Libraries []Library
	// Rooms are the top-level folders, from the lowest to the highest. Code in a room must not import packages of a
	// later room.
	Rooms []string
}

// Below matches every package of a lower layer that is not a Kit.
const Below = "(below)"

// Orch returns the table of this module, from the lowest layer to the highest.
func Orch() Table { return Table{Layers: layers(), Libraries: libraries(), Rooms: rooms()} }

func rooms() []string {
	return []string{
		"fault", "retention", "objects", "classify", "events", "internal", "statemachine", "export", "work", "costs", "schedules", "hooks", "destinations", "audit", "api", "plan", "undo", "bulk", "index", "traces", "compare", "evals", "stats", "messages", "scheduler", "receiver", "sender", "auditor", "holds", "archives", "agents", "models", "tools", "policy",
		"bus", "rpc", "orchestrator", "worker", "mcp", "httpapi", "web", "skills", "node", ".", "plantest", "bench", "test", "cmd",
	}
}

func layers() []Layer {
	family := []string{"fault", "events", "tools", "internal/pathguard", "internal/proc"}
	face := []string{"fault", "events", "statemachine", "work", "plan", "tools", "policy", "classify/secrets", "messages", "api"}
	return []Layer{
		{"leaves", leaves()},
		{"facts", []Row{
			{Package: "events", Imports: []string{"fault"}},
			{Package: "events/follow", Imports: []string{"events"}},
			{Package: "events/memlog", Imports: []string{"fault", "events"}},
			{Package: "events/eventstest", Imports: []string{"fault", "events"}, Kit: true},
			{Package: "statemachine", Imports: []string{"fault", "events"}, Pure: true},
			{Package: "export", Imports: []string{"fault", "events", "statemachine"}},
			{Package: "work", Imports: []string{"fault", "events"}},
			{Package: "costs", Imports: []string{"fault", "events", "statemachine"}, Pure: true},
			{Package: "schedules", Imports: []string{"fault", "internal/definition"}, Pure: true},
			{Package: "hooks", Imports: []string{"fault", "internal/definition"}, Pure: true},
			{Package: "destinations", Imports: []string{"fault", "events", "hooks", "internal/definition"}, Pure: true},
			{Package: "audit", Imports: []string{"fault", "events"}},
			{Package: "api", Imports: []string{"fault", "events", "statemachine", "work", "costs", "schedules", "hooks", "destinations", "audit"}},
		}},
		{"domain", domain(family)},
		{"use cases", []Row{
			// orchestrator and worker never import each other: they communicate through the log and package work.
			{Package: "orchestrator/decide", Imports: []string{
				"fault", "events", "statemachine", "stats", "costs", "work", "api", "plan", "models", "tools", "policy", "internal/failpoint",
			}, Pure: true},
			{Package: "orchestrator/dispatch", Imports: []string{"events", "statemachine", "work"}, Pure: true},
			{Package: "orchestrator", Imports: []string{
				"fault", "events", "statemachine", "stats", "costs", "work", "api", "plan", "models", "models/sampling", "tools", "policy", "export", "internal/failpoint", "internal/pause", "internal/secret",
				"compare", "retention", "holds", "traces", "tools/toolinfo", "orchestrator/decide", "orchestrator/dispatch",
			}},
			{Package: "worker", Imports: []string{
				"fault", "events", "statemachine", "work", "tools", "policy",
				"internal/histogram", "internal/gopool", "internal/failpoint", "internal/pathguard", "internal/pathindex", "internal/pause", "internal/proc", "internal/secret", "internal/undo", "internal/uptime", "internal/workspace",
			}},
		}},
		{"adapters", adapters(face)},
		{"program", []Row{
			{Package: "node", Imports: []string{Below}},
		}},
		{"library", []Row{
			// The root of the module is what other programs import.
			{Package: ".", Imports: []string{"fault", "events", "statemachine", "api", "plan", "tools", "node"}},
		}},
		{"around the program", []Row{
			{Package: "bench", Imports: []string{Below}},
			{Package: "test/corrupt", Imports: []string{Below}},
			{Package: "test/crash", Imports: []string{Below}},
			{Package: "test/injection", Imports: []string{Below}},
			{Package: "test/load", Imports: []string{Below}},
			{Package: "test/network", Imports: []string{Below}},
			{Package: "plantest", Imports: []string{"fault", "internal/yamlerror", "events", "events/memlog", "statemachine", "work", "api", "plan", "index", "tools", "orchestrator"}},
			{Package: "test/outside", Imports: []string{Below}},
			{Package: "test/docs", Imports: []string{"bus", "test/need", "objects/s3/s3test"}},
			{Package: "test/gendocs", Imports: []string{Below}},
			{Package: "test/embed", Imports: []string{Below}},
			{Package: "test/sim", Imports: []string{Below}},
			{Package: "test/site", Imports: []string{"test/need"}},
			{Package: "test/traces", Imports: []string{"test/need"}},
			{Package: "test/upgrade", Imports: []string{"test/need"}},
			{Package: "test/workerprotocol", Imports: []string{"fault"}, Kit: true},
			{Package: "test/workers", Imports: []string{Below}},
		}},
		{"commands", []Row{
			{Package: "cmd/orch", Imports: []string{Below}},
		}},
	}
}

// domain returns the rows of packages with domain logic. family are the imports that most packages of tools have in
// common.
func domain(family []string) []Row {
	return []Row{
		{Package: "plan", Imports: []string{"fault", "classify/secrets"}},
		{Package: "messages", Imports: []string{"fault", "events"}},
		{Package: "messages/messagestest", Imports: []string{"fault", "events", "messages"}, Kit: true},
		{Package: "holds", Imports: []string{"fault", "events", "api", "internal/journaled"}},
		{Package: "archives", Imports: []string{"fault", "events", "statemachine", "export", "api", "objects", "objects/s3"}},
		{Package: "scheduler", Imports: []string{"fault", "events", "statemachine", "schedules", "api", "internal/journaled"}},
		{Package: "receiver", Imports: []string{"fault", "events", "hooks", "api", "plan", "internal/journaled", "internal/keyring", "internal/pause"}},
		{Package: "sender", Imports: []string{"fault", "events", "events/follow", "hooks", "destinations", "api", "plan", "internal/journaled", "internal/keyring", "internal/netguard"}},
		{Package: "auditor", Imports: []string{"fault", "audit", "api"}},
		{Package: "agents", Imports: []string{"fault", "events", "traces", "work"}},
		{Package: "agents/peer", Imports: []string{"fault", "events", "work", "agents", "internal/pause"}},
		{Package: "index", Imports: []string{"fault", "events", "statemachine", "work", "api"}},
		{Package: "stats", Imports: []string{"fault", "events", "statemachine", "costs", "internal/pause"}},
		{Package: "policy", Imports: []string{"fault", "events", "statemachine", "tools", "internal/netguard", "internal/spell", "classify/secrets", "classify/shell"}},
		{Package: "undo", Imports: []string{"fault", "events", "api", "plan"}},
		{Package: "bulk", Imports: []string{"fault", "events", "statemachine", "audit", "api"}},
		{Package: "traces", Imports: []string{"fault", "events", "statemachine"}, Pure: true},
		{Package: "compare", Imports: []string{"events", "statemachine", "api"}, Pure: true},
		{Package: "evals", Imports: []string{"fault", "events", "statemachine", "api", "plan"}, Pure: true},
		{Package: "policy/backtest", Imports: []string{"events", "statemachine", "api", "policy", "tools"}},
		{Package: "tools", Imports: []string{"fault", "events", "statemachine", "traces", "internal/pathguard", "internal/proc", "internal/secret", "classify/secrets"}},
		{Package: "tools/toolstest", Imports: []string{"fault", "tools"}, Kit: true},
		{Package: "tools/builtin", Imports: []string{"fault", "tools", "tools/*"}},
		{Package: "tools/shell", Imports: append([]string{"classify/shell"}, family...)},
		{Package: "tools/db", Imports: append([]string{"classify/sql"}, family...)},
		{Package: "tools/fs", Imports: append([]string{"internal/patch"}, family...)},
		{Package: "tools/git", Imports: append([]string{"internal/netguard"}, family...)},
		{Package: "tools/web", Imports: append([]string{"internal/netguard", "internal/secret"}, family...)},
		{Package: "tools/forge", Imports: append([]string{"internal/netguard"}, family...)},
		{Package: "tools/notify", Imports: append([]string{"internal/netguard"}, family...)},
		{Package: "tools/message", Imports: append([]string{"messages"}, family...)},
		{Package: "tools/firebase/refusal", Imports: []string{"fault"}, Pure: true},
		{Package: "tools/firebase/tree", Imports: []string{"fault", "tools/firebase/refusal"}, Pure: true},
		{Package: "tools/firebase/document", Imports: []string{"fault", "tools/firebase/refusal"}, Pure: true},
		{Package: "tools/firebase/firebasetest", Imports: []string{"fault", "tools/firebase", "tools/firebase/refusal"}, Kit: true},
		{Package: "tools/firebase/memory", Imports: []string{
			"fault", "tools/firebase", "tools/firebase/backlog", "tools/firebase/document", "tools/firebase/refusal", "tools/firebase/tree",
		}},
		{Package: "tools/firebase/backlog", Imports: []string{"fault", "tools/firebase", "tools/firebase/refusal"}},
		{Package: "tools/firebase/account", Imports: []string{"fault", "internal/netguard", "tools/firebase/refusal"}},
		{Package: "tools/firebase/realtime", Imports: []string{
			"fault", "internal/netguard", "internal/pause", "tools/firebase", "tools/firebase/account", "tools/firebase/backlog",
			"tools/firebase/refusal", "tools/firebase/tree",
		}},
		{Package: "tools/firebase/grpc"},
		{Package: "tools/firebase/wire", Pure: true},
		{Package: "tools/firebase/docstore", Imports: []string{
			"fault", "internal/netguard", "internal/pause", "tools/firebase", "tools/firebase/account", "tools/firebase/backlog", "tools/firebase/document",
			"tools/firebase/grpc", "tools/firebase/refusal", "tools/firebase/wire",
		}},
		{Package: "tools/firebase/embedded", Imports: []string{"fault", "tools/firebase", "tools/firebase/memory", "tools/firebase/refusal"}},
		{Package: "tools/firebase", Imports: append([]string{"internal/pause", "tools/firebase/document", "tools/firebase/refusal", "tools/firebase/tree"}, family...)},
		{Package: "tools/agent", Imports: append([]string{"agents", "work"}, family...)},
		{Package: "tools/model", Imports: append([]string{"models", "models/sampling"}, family...)},
		{Package: "tools/onboarding", Imports: append([]string{"agents"}, family...)},
		{Package: "tools/system", Imports: append([]string{"agents"}, family...)},
		{Package: "tools/toolinfo", Imports: []string{"plan", "tools"}},
		{Package: "tools/*", Imports: family},
		{Package: "internal/undo", Imports: []string{"fault", "internal/patch", "internal/pathguard", "internal/proc"}},
		{Package: "internal/workspace", Imports: []string{"fault", "events", "classify/secrets", "internal/pathguard"}},
	}
}

// adapters returns the rows of packages that connect the program to the outside. face are the common imports of
// packages with an interface for clients.
func adapters(face []string) []Row {
	return []Row{
		// Packages with an interface for clients (mcp, httpapi) never import bus or worker.
		{Package: "bus/storefile"},
		{Package: "traces/otlp", Imports: []string{"fault", "traces", "internal/netguard", "internal/pause"}},
		{Package: "traces/exporter", Imports: []string{"fault", "events", "events/follow", "traces", "traces/otlp", "internal/journaled", "internal/pause"}},
		{Package: "bus/election", Imports: []string{"fault", "internal/uptime"}},
		{Package: "bus", Imports: []string{
			"fault", "events", "stats", "agents", "messages", "hooks", "classify/secrets", "bus/election", "bus/storefile", "internal/failpoint", "internal/histogram", "internal/pause",
		}},
		{Package: "bus/bustest", Imports: []string{"events", "bus"}, Kit: true},
		{Package: "rpc", Imports: []string{
			"fault", "events", "work", "audit", "api", "agents", "messages", "classify/secrets", "bus", "internal/failpoint", "internal/gopool", "internal/pause",
		}},
		{Package: "mcp/oauth", Imports: []string{"fault", "internal/netguard", "internal/wholefile"}},
		{Package: "mcp/oauthtest", Kit: true},
		{Package: "mcp/peertest", Kit: true},
		{Package: "mcp/registry", Imports: append([]string{"internal/pause", "internal/proc", "internal/wholefile", "mcp/oauth"}, face...)},
		{Package: "mcp/gateway", Imports: append([]string{"mcp/registry", "internal/patch", "internal/unseen", "internal/wholefile"}, face...)},
		{Package: "mcp/*", Imports: append([]string{"traces", "tools/toolinfo", "internal/netguard", "internal/pause", "internal/spell", "internal/wholefile", "mcp/*"}, face...)},
		{Package: "httpapi", Imports: append([]string{"agents", "internal/sse", "hooks", "receiver"}, face...)},
		{Package: "httpapi/metrics", Imports: []string{"fault", "stats", "schedules", "hooks", "destinations", "internal/histogram"}},
		{Package: "httpapi/rest", Imports: []string{"fault", "events", "statemachine", "work", "audit", "traces", "traces/otlp", "api", "schedules", "hooks", "undo", "bulk", "agents", "internal/sse"}},
		// web contains only the files of the page; its tests compare them with the program.
		{Package: "web"},
		{Package: "skills"},
	}
}

// leaves returns the rows of packages that import almost nothing of this module.
func leaves() []Row {
	return []Row{
		{Package: "fault"},
		{Package: "retention", Imports: []string{"fault"}, Pure: true},
		{Package: "objects", Imports: []string{"fault"}},
		{Package: "objects/objectstest", Imports: []string{"fault", "objects"}, Kit: true},
		{Package: "objects/s3/s3test", Kit: true},
		{Package: "objects/s3", Imports: []string{"fault", "objects"}},
		{Package: "classify/secrets", Pure: true},
		{Package: "classify/secrets/update"},
		{Package: "classify/shell", Imports: []string{"fault"}, Pure: true},
		{Package: "classify/sql", Pure: true},
		{Package: "test/archtest", Imports: []string{"test/requirements"}},
		{Package: "test/need", Kit: true},
		{Package: "test/recipes"},
		{Package: "test/report"},
		{Package: "test/requirements"},
		{Package: "internal/failpoint"},
		{Package: "internal/config", Imports: []string{"fault", "retention", "internal/netguard", "internal/secret", "internal/spell", "internal/yamlerror", "classify/secrets"}},
		{Package: "internal/definition", Imports: []string{"fault"}, Pure: true},
		{Package: "internal/gopool"},
		{Package: "internal/histogram"},
		{Package: "internal/httplimit"},
		{Package: "internal/patch", Imports: []string{"fault"}},
		{Package: "internal/goroutines", Kit: true},
		{Package: "internal/logtest", Kit: true},
		{Package: "internal/netguard", Imports: []string{"fault"}},
		{Package: "internal/pathguard", Imports: []string{"fault"}},
		{Package: "internal/journaled", Imports: []string{"fault"}},
		{Package: "internal/keyring", Imports: []string{"fault"}},
		{Package: "internal/journaled/journaledtest", Imports: []string{"fault", "internal/journaled"}, Kit: true},
		{Package: "internal/pathindex", Imports: []string{"fault"}},
		{Package: "internal/proc", Imports: []string{"fault", "internal/secret"}},
		{Package: "internal/secret", Imports: []string{"fault", "classify/secrets"}},
		{Package: "internal/pause"},
		{Package: "internal/spell"},
		{Package: "internal/sse"},
		{Package: "internal/wholefile"},
		{Package: "internal/unseen"},
		{Package: "internal/uptime"},
		{Package: "internal/yamlerror"},
		{Package: "cmd/orch/screen", Imports: []string{"internal/unseen"}},
		{Package: "models"},
		{Package: "models/directory", Imports: []string{"fault", "models", "models/breaker", "models/replay", "models/sampling"}},
		{Package: "models/breaker", Imports: []string{"models"}},
		{Package: "models/replay", Imports: []string{"fault", "models"}},
		{Package: "models/sampling", Imports: []string{"fault", "models", "models/wire"}},
		{Package: "models/modelstest", Imports: []string{"models", "models/wire"}, Kit: true},
		{Package: "models/script", Imports: []string{"models"}},
		{Package: "models/wire", Imports: []string{"models", "internal/sse"}},
		{Package: "models/*", Imports: []string{"models", "models/wire", "internal/sse"}},
	}
}

func libraries() []Library {
	return []Library{
		{Path: "github.com/expr-lang/expr", Users: []string{"plan"}, Hidden: true},
		{Path: "github.com/looplab/fsm", Users: []string{"statemachine"}, Hidden: true},
		{Path: "github.com/modelcontextprotocol/go-sdk", Users: []string{"mcp/*", "bench"}, Hidden: true},
		{Path: "github.com/nats-io", Users: []string{"bus", "bus/bustest", "bus/election", "bus/storefile", "rpc", "bench", "test/crash"}, Hidden: true},

		{Path: "github.com/pelletier/go-toml/v2", Users: []string{"mcp/clients", "classify/secrets/update", "tools/build"}, Hidden: true},
		{Path: "github.com/Masterminds/semver/v3", Users: []string{"tools/build"}, Hidden: true},
		{Path: "github.com/fsnotify/fsnotify", Users: []string{"mcp/gateway", "mcp/registry"}, Hidden: true},
		{Path: "github.com/tailscale/hujson", Users: []string{"mcp/clients", "mcp/registry"}, Hidden: true},
		{Path: "golang.org/x/time", Users: []string{"mcp/*"}},
		{Path: "github.com/go-sql-driver/mysql", Users: []string{"tools/db"}, Hidden: true},
		{Path: "github.com/jackc/pgx/v5", Users: []string{"tools/db"}, Hidden: true},
		{Path: "github.com/ncruces/go-sqlite3", Users: []string{"tools/db"}, Hidden: true},
		{Path: "google.golang.org/protobuf/encoding/protowire", Users: []string{"tools/firebase/wire"}, Hidden: true},
		{Path: "code.dny.dev/ssrf", Users: []string{"internal/netguard"}, Hidden: true},
		{Path: "github.com/JohannesKaufmann", Users: []string{"tools/web"}, Hidden: true},
		{Path: "github.com/nicholas-fedor/shoutrrr", Users: []string{"tools/notify"}, Hidden: true},

		{Path: "github.com/bmatcuk/doublestar/v4", Users: []string{"policy", "tools/*", "internal/pathguard"}},
		{Path: "github.com/go-json-experiment/json", Users: []string{"events", "rpc"}},
		{Path: "github.com/google/jsonschema-go", Users: []string{"plan", "tools", "tools/toolstest", "mcp/*", "httpapi/rest"}},
		{Path: "github.com/klauspost/compress", Users: []string{"bus", "bus/storefile"}},
		{Path: "github.com/minio/highwayhash", Users: []string{"bus/storefile"}},
		{Path: "github.com/oklog/ulid/v2", Users: []string{"events", "index", "traces"}},
		{Path: "github.com/santhosh-tekuri/jsonschema/v6", Users: []string{"plan", "tools", "agents", "tools/toolstest", "mcp/*"}},
		{Path: "github.com/spf13", Users: []string{"cmd/orch", "test/gendocs"}},
		{Path: "go.yaml.in/yaml/v3", Users: []string{"plan", "policy", "internal/config", "plantest", "evals", "mcp/registry", "models/script", "internal/definition", "cmd/orch", "test/requirements", "internal/yamlerror"}},
		{Path: "golang.org/x/net/bpf", Users: []string{"internal/proc"}},
		{Path: "golang.org/x/net", Users: []string{"internal/netguard", "tools/web"}},
		{Path: "golang.org/x/oauth2", Users: []string{"tools/firebase/account"}, Hidden: true},
		{Path: "golang.org/x/sys", Users: []string{"bus", "internal/pathguard", "internal/proc", "internal/uptime", "tools/*"}},
		{Path: "golang.org/x/text", Users: []string{"plan", "tools", "agents", "mcp/*"}},
		{Path: "golang.org/x/term", Users: []string{"cmd/orch", "cmd/orch/screen"}},
		{Path: "mvdan.cc/sh/v3", Users: []string{"classify/shell", "tools/shell"}},

		{Path: "cloud.google.com/go/firestore", TestOnly: true},
		{Path: "github.com/anishathalye/porcupine", TestOnly: true},
		{Path: "github.com/getkin/kin-openapi", TestOnly: true},
		{Path: "github.com/rogpeppe/go-internal", TestOnly: true},
		{Path: "github.com/stretchr/testify", TestOnly: true},
		{Path: "go.uber.org/goleak", TestOnly: true},
		{Path: "google.golang.org/api", TestOnly: true},
		{Path: "google.golang.org/genproto", TestOnly: true},
		{Path: "google.golang.org/grpc", TestOnly: true},
		{Path: "google.golang.org/protobuf", TestOnly: true},
		{Path: "pgregory.net/rapid", TestOnly: true},
	}
}
