package node

import (
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/mcp/server"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools/agent"
)

const (
	// maxAgentFiles limits how many agents are listed.
	maxAgentFiles = 1000
	// maxAbout limits the characters of what is said about an agent without a description.
	maxAbout = 120
)

// AgentFiles lists the agents of a root. It is safe for concurrent use.
type AgentFiles struct {
	root *pathguard.Root

	mu    sync.Mutex // guards known
	known map[string]knownAgent
}

// knownAgent is an agent file as it was last read.
type knownAgent struct {
	size    int64
	changed time.Time
	about   string
}

// NewAgentFiles returns the agents of a root, which must stay open.
func NewAgentFiles(root *pathguard.Root) *AgentFiles { return &AgentFiles{root: root} }

// AgentFiles implements [server.Agents]. It reads only files that have changed. A file that is no valid plan is listed without a
// description: who starts it is told what is wrong.
func (a *AgentFiles) AgentFiles() []server.AgentFile {
	entries, err := a.root.ReadDir(agent.Folder)
	if err != nil {
		return nil // there is no folder
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := map[string]knownAgent{}
	var files []server.AgentFile
	for _, e := range entries {
		name, ok := agent.TemplateName(e.Name())
		if !ok || len(files) == maxAgentFiles {
			continue
		}
		known[name] = a.read(name, e)
		files = append(files, server.AgentFile{Name: name, About: known[name].about})
	}
	a.known = known
	return files
}

// read returns an agent file as it is now. a.mu must be held.
func (a *AgentFiles) read(name string, e fs.DirEntry) knownAgent {
	info, err := e.Info()
	if err != nil {
		return knownAgent{} // it was removed just now
	}
	k := knownAgent{size: info.Size(), changed: info.ModTime()}
	if before, ok := a.known[name]; ok && before.size == k.size && before.changed.Equal(k.changed) {
		return before
	}
	file := agent.TemplateFile(name)
	text, err := a.root.ReadFile(file, agent.MaxTemplate)
	if err != nil {
		return k
	}
	if p, err := plan.Parse(file, text, plan.Options{}); err == nil {
		k.about = aboutAgent(p, name)
	}
	return k
}

// aboutAgent returns in one line what an agent is for: its description, the first line of its instructions, or the name of its plan.
func aboutAgent(p *plan.Plan, name string) string {
	if summary := strings.Join(strings.Fields(p.Summary), " "); summary != "" {
		return shortened(summary, plan.MaxDescription)
	}
	about := p.Name
	if about == name || about == "agent "+name {
		about = ""
	}
	if len(p.Steps) == 1 && p.Steps[0].Agent != nil && p.Steps[0].Agent.Instructions != "" {
		about = p.Steps[0].Agent.Instructions
	}
	about, _, _ = strings.Cut(strings.TrimSpace(about), "\n")
	return shortened(about, maxAbout)
}

// shortened returns at most limit characters of a text.
func shortened(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
