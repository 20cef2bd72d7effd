package agent

import (
	"context"
	"path"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// folder is the folder of the templates, below the root. No tool may write there.
const folder = ".orch/agents"

const (
	suffix      = ".yaml"
	maxTemplate = 1 << 20 // bytes, the limit of every plan
)

// templateAgents are the agents with a plan template below the root.
type templateAgents struct{}

func (templateAgents) spawn(_ context.Context, env *tools.Env, agent string) (tools.Spawn, bool, error) {
	file := path.Join(folder, agent+suffix)
	text, err := env.Root.ReadFile(file, maxTemplate)
	if fault.Has(err, fault.NotFound) {
		return tools.Spawn{}, false, nil
	}
	if err != nil {
		return tools.Spawn{}, false, fault.From(err).WithField("subagent_type")
	}
	return tools.Spawn{Agent: agent, File: file, Plan: text}, true, nil
}

func (templateAgents) types(_ context.Context, env *tools.Env) []string {
	entries, err := env.Root.ReadDir(folder)
	if err != nil {
		return nil // there is no folder
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), suffix); ok && isType(name) {
			names = append(names, name)
		}
	}
	return names
}
