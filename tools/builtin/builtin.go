// Package builtin is the one list of the tools that come with orch.
package builtin

import (
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/build"
	"github.com/orch-dev/orch/tools/db"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/fs"
	"github.com/orch-dev/orch/tools/git"
	"github.com/orch-dev/orch/tools/message"
	"github.com/orch-dev/orch/tools/notify"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/tools/shell"
	"github.com/orch-dev/orch/tools/system"
	"github.com/orch-dev/orch/tools/task"
	"github.com/orch-dev/orch/tools/test"
	"github.com/orch-dev/orch/tools/web"
)

// Config holds what the families need to know of the node, a field for each family that needs anything.
// The zero value works: tools that depend on a setting then say which one is missing.
type Config struct {
	// Database configures DATABASE_QUERY.
	Database db.Config
	Web      web.Config
	Notify   notify.Config
	// GitHub names the server of the API and holds the token.
	GitHub forge.Config
	// Firebase has the databases and the subscriptions of sessions.
	Firebase firebase.Config
	// Git knows secrets, the form of messages and who commits.
	Git git.Config
	// Build names the registries of packages.
	Build build.Config
	// Agent names the agents that are commands.
	Agent agent.Config
	// Onboarding and System know the node with its registered agents.
	Onboarding onboarding.Config
	System     system.Config
	// Message has the broker of the node.
	Message message.Config
}

// Family is a group of tools with the name under which they are listed as skills.
type Family struct {
	Category string
	Tools    []tools.Tool
}

// Families returns all families, one line each.
func Families(cfg Config) []Family {
	return []Family{
		{"files", fs.Tools()},
		{"shell", shell.Tools()},
		{"git", git.Tools(cfg.Git)},
		{"task", task.Tools()},
		{"test", test.Tools()},
		{"database", db.Tools(cfg.Database)},
		{"web", web.Tools(cfg.Web)},
		{"notification", notify.Tools(cfg.Notify)},
		{"github", forge.Tools(cfg.GitHub)},
		{"firebase", firebase.Tools(cfg.Firebase)},
		{"build", build.Tools(cfg.Build)},
		{"agent", agent.Tools(cfg.Agent)},
		{"system", system.Tools(cfg.System)},
		{"onboarding", onboarding.Tools(cfg.Onboarding)},
		{"message", message.Tools(cfg.Message)},
	}
}

// All returns the tools of all families.
func All(cfg Config) []tools.Tool {
	var all []tools.Tool
	for _, f := range Families(cfg) {
		all = append(all, f.Tools...)
	}
	return all
}

// Internal returns the tools that only the node itself calls. They stand in no list.
func Internal(cfg Config) []tools.Tool { return agent.Internal(cfg.Agent) }
