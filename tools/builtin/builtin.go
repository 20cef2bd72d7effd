// Package builtin is the one list of the tools that come with orch.
package builtin

import (
	"slices"

	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/agent"
	"github.com/orch-dev/orch/tools/build"
	"github.com/orch-dev/orch/tools/db"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/forge"
	"github.com/orch-dev/orch/tools/fs"
	"github.com/orch-dev/orch/tools/git"
	"github.com/orch-dev/orch/tools/notify"
	"github.com/orch-dev/orch/tools/shell"
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
}

// All returns the tools of all families, one line each.
func All(cfg Config) []tools.Tool {
	return slices.Concat(
		fs.Tools(),
		shell.Tools(),
		git.Tools(cfg.Git),
		task.Tools(),
		test.Tools(),
		db.Tools(cfg.Database),
		web.Tools(cfg.Web),
		notify.Tools(cfg.Notify),
		forge.Tools(cfg.GitHub),
		firebase.Tools(cfg.Firebase),
		build.Tools(cfg.Build),
		agent.Tools(cfg.Agent),
	)
}

// Internal returns the tools that only the node itself calls. They stand in no list.
func Internal(cfg Config) []tools.Tool { return agent.Internal(cfg.Agent) }
