// Package builtin lists the tools that are part of orch.
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
	"github.com/orch-dev/orch/tools/model"
	"github.com/orch-dev/orch/tools/notify"
	"github.com/orch-dev/orch/tools/onboarding"
	"github.com/orch-dev/orch/tools/shell"
	"github.com/orch-dev/orch/tools/system"
	"github.com/orch-dev/orch/tools/task"
	"github.com/orch-dev/orch/tools/test"
	"github.com/orch-dev/orch/tools/web"
)

// Config configures the families of tools. With the zero value, tools that need a setting return an error that names
// the setting.
type Config struct {
	// Database configures DATABASE_QUERY.
	Database db.Config
	Web      web.Config
	Notify   notify.Config
	// GitHub configures the server of the API and the token.
	GitHub forge.Config
	// Firebase configures the databases and the subscriptions of sessions.
	Firebase firebase.Config
	// Git configures the detection of secrets, the form of messages and the committer.
	Git git.Config
	// Build configures the package registries.
	Build build.Config
	// Agent configures the agents that are commands.
	Agent agent.Config
	// Onboarding and System connect their families with the node and its registered agents.
	Onboarding onboarding.Config
	System     system.Config
	// Message contains the broker of the node.
	Message message.Config
	// Model connects MODEL_CALL with the node.
	Model model.Config
}

// Family is a group of tools with the category under which they are listed as skills.
type Family struct {
	Category string
	Tools    []tools.Tool
}

// Families returns all families.
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

// Internal returns the tools that only the node itself calls. They are not listed.
func Internal(cfg Config) []tools.Tool {
	return append(agent.Internal(cfg.Agent), model.Internal(cfg.Model)...)
}
