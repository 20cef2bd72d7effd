package agent

import (
	"context"
	"path"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// Folder is the folder of the templates, below the root. No tool may write there.
const Folder = ".orch/agents"

// MaxTemplate is the maximum size of a template in bytes, the limit of every plan.
const MaxTemplate = 1 << 20

const suffix = ".yaml"

// TemplateFile returns the path of the template of an agent, below the root.
func TemplateFile(agent string) string { return path.Join(Folder, agent+suffix) }

// TemplateName returns the name of the agent of a file in Folder; false if the file is no template.
func TemplateName(file string) (agent string, ok bool) {
	agent, ok = strings.CutSuffix(file, suffix)
	return agent, ok && isType(agent)
}

// templateAgents are the agents with a plan template below the root.
type templateAgents struct{}

func (templateAgents) spawn(_ context.Context, env *tools.Env, agent string) (tools.Spawn, bool, error) {
	file := TemplateFile(agent)
	text, err := env.Root.ReadFile(file, MaxTemplate)
	if fault.Has(err, fault.NotFound) {
		return tools.Spawn{}, false, nil
	}
	if err != nil {
		return tools.Spawn{}, false, fault.From(err).WithField("subagent_type")
	}
	return tools.Spawn{Agent: agent, File: file, Plan: text}, true, nil
}

func (templateAgents) types(_ context.Context, env *tools.Env) []string {
	entries, err := env.Root.ReadDir(Folder)
	if err != nil {
		return nil // there is no folder
	}
	var names []string
	for _, e := range entries {
		if name, ok := TemplateName(e.Name()); ok {
			names = append(names, name)
		}
	}
	return names
}
