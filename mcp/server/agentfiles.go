package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Agents lists the agents that files of the root describe.
type Agents interface {
	// AgentFiles returns the agents, sorted by name. It is called once a second and must not be slow when nothing has changed.
	AgentFiles() []AgentFile
}

// AgentFile is an agent that a file describes.
type AgentFile struct {
	// Name is the name of the agent, as TASK_SPAWN takes it. About says in one line what it is for; it may be empty.
	Name  string `json:"name"`
	About string `json:"about,omitempty"`
}

// agentsEvery is the interval at which the server looks for new agent files.
const agentsEvery = time.Second

// maxAgentList limits the bytes of the list of agents in the description of TASK_SPAWN.
const maxAgentList = 2 << 10

// agentPromptPrefix is the prefix of the prompts that start an agent.
const agentPromptPrefix = "agent_"

// agentList contains the agents that clients can start. It is safe for concurrent use.
type agentList struct {
	*core

	mu    sync.Mutex // guards known
	known []AgentFile
}

// update reads the agents again, and reports whether they have changed.
func (al *agentList) update() bool {
	if al.cfg.Stores.Agents == nil {
		return false
	}
	files := al.cfg.Stores.Agents.AgentFiles()
	al.mu.Lock()
	defer al.mu.Unlock()
	if slices.Equal(al.known, files) {
		return false
	}
	al.known = files
	return true
}

func (al *agentList) all() []AgentFile {
	al.mu.Lock()
	defer al.mu.Unlock()
	return al.known
}

// describe adds the list of agents to the description of the tool that starts one.
func (al *agentList) describe(tool, description string) string {
	files := al.all()
	if tool != toolSpawn || len(files) == 0 {
		return description
	}
	var b strings.Builder
	for i, f := range files {
		entry := "\n- " + f.Name
		if f.About != "" {
			entry += ": " + f.About
		}
		if b.Len()+len(entry) > maxAgentList {
			fmt.Fprintf(&b, "\n- and %d more", len(files)-i)
			break
		}
		b.WriteString(entry)
	}
	return strings.TrimSuffix(description, ".") + ". Agents of this project (subagent_type):" + b.String()
}

// agentPrompts offers a prompt for each agent file.
type agentPrompts struct {
	*core

	tools  *toolView
	agents *agentList
	// offered are the prompts registered with the SDK, by name. Only New and followTools use it.
	offered map[string]string
}

// offer registers the prompts of the present agents with the SDK, and removes those of agents that are gone. An agent with two
// underscores in its name has no prompt: such names are those of prompts of external MCP servers.
func (ap *agentPrompts) offer() {
	offered := map[string]string{}
	for _, f := range ap.agents.all() {
		name := agentPromptPrefix + f.Name
		if strings.Contains(name, "__") {
			continue
		}
		if offered[name] = f.About; ap.isOffered(name, f.About) {
			continue
		}
		ap.sdk.AddPrompt(&mcp.Prompt{
			Name: name, Title: "Start the agent " + f.Name, Description: f.About,
			Arguments: []*mcp.PromptArgument{
				{Name: "prompt", Description: "what the agent is to do", Required: true},
				{Name: "model", Description: "model to ask instead of that in the file"},
			},
		}, ap.start(f.Name))
	}
	ap.sdk.RemovePrompts(missingKeys(ap.offered, offered)...)
	ap.offered = offered
}

func (ap *agentPrompts) isOffered(name, about string) bool {
	before, ok := ap.offered[name]
	return ok && before == about
}

// start returns the handler of the prompt that starts an agent.
func (ap *agentPrompts) start(agent string) mcp.PromptHandler {
	return func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		c := clientFrom(ctx)
		if !ap.sees(c) {
			return nil, invalidParams("unknown prompt " + quoted(req.Params.Name))
		}
		prompt, err := required(req, "prompt")
		if err != nil {
			return nil, err
		}
		args := object{"subagent_type": agent, "prompt": prompt}
		if model := req.Params.Arguments["model"]; model != "" {
			args["model"] = model
		}
		text := fmt.Sprintf("Start the agent %s of orch: call the tool %s once, with exactly these arguments, and leave the work to the agent.\n\n%s\n\n"+
			"Then tell me its report, or why it failed.", agent, ap.tools.nameFor(c, toolSpawn), mustJSON(args))
		if waits := ap.tools.nameFor(c, toolResult); waits != "" {
			text += " If the call answers with handed_back, the agent goes on: do not call again, wait with " + waits + "."
		}
		return promptResult("Starts the agent "+agent, &mcp.TextContent{Text: text}), nil
	}
}

// sees reports whether a client can start agents, and so sees their prompts.
func (ap *agentPrompts) sees(c client) bool {
	return c.who.Role.submits() && ap.tools.nameFor(c, toolSpawn) != "" && ap.tools.isListed(c, toolSpawn)
}

// listPrompts removes the prompts of agents from the list of a client that cannot start them.
func (ap *agentPrompts) listPrompts(c client, list *mcp.ListPromptsResult) {
	if ap.sees(c) {
		return
	}
	list.Prompts = slices.DeleteFunc(list.Prompts, func(p *mcp.Prompt) bool {
		return strings.HasPrefix(p.Name, agentPromptPrefix) && !strings.Contains(p.Name, "__")
	})
}
