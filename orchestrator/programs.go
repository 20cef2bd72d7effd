package orchestrator

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/tools/toolinfo"
)

// program is a compiled plan together with its normal form.
type program struct {
	*plan.Program

	text json.RawMessage
	hash string
}

// compiler compiles plans.
type compiler struct {
	*core

	blobs    *blobStore
	clean    *cleaner
	programs programs
	// languages is shared by all compiled plans.
	languages plan.Languages
}

// programs caches compiled plans by the hash of their normal form (byHash), and by the hash of their source (bySource).
type programs struct {
	mu       sync.Mutex
	byHash   map[string]*program
	bySource map[string]*program
}

// maxPrograms limits the entries of each map in programs. A full map is emptied.
const maxPrograms = 512

func newPrograms() programs {
	return programs{byHash: map[string]*program{}, bySource: map[string]*program{}}
}

func (p *programs) get(m map[string]*program, key string) *program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return m[key]
}

func (p *programs) put(m map[string]*program, key string, prog *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(m) >= maxPrograms {
		clear(m)
	}
	m[key] = prog
}

// source is the text of a plan.
type source struct {
	// text is the plan as JSON, or the text of a plan file as a JSON string. file is the name of the file for messages.
	text []byte
	file string
	// internal is set if the plan comes from the node itself, or was accepted before. Such a plan may use internal tools.
	internal bool
}

// programFrom checks a plan against the catalogue and compiles it.
func (cp *compiler) programFrom(s source) (*program, error) {
	text, key := s.text, digest(s.text, []byte(s.file), strconv.AppendBool(nil, s.internal))
	if prog := cp.programs.get(cp.programs.bySource, key); prog != nil {
		return prog, nil
	}
	if rule, found := cp.cfg.FindSecret(text); found {
		return nil, decide.SecretIn(cp.clean.secretPlace(text), rule)
	}
	var yaml string
	if json.Unmarshal(text, &yaml) == nil {
		text = []byte(yaml)
	}
	toolInfo := func(name string) (plan.ToolInfo, bool) { return cp.toolInfo(name, s.internal) }
	parsed, compiled, err := plan.Load(s.file, text, plan.Options{Tool: toolInfo, ToolNames: cp.cfg.Catalogue.Names, Languages: &cp.languages, Accepted: s.internal})
	if err != nil {
		return nil, err
	}
	prog := &program{Program: compiled, text: parsed.JSON(), hash: parsed.SHA256()}
	cp.programs.put(cp.programs.bySource, key, prog)
	cp.programs.put(cp.programs.byHash, prog.hash, prog)
	return prog, nil
}

// program returns the compiled plan of a task. A plan in the log was checked when it was submitted.
func (cp *compiler) program(ctx context.Context, sub *events.Submitted) (*plan.Program, error) {
	if prog := cp.programs.get(cp.programs.byHash, sub.PlanSHA256); prog != nil {
		return prog.Program, nil
	}
	text, err := cp.blobs.fetch(ctx, sub.Plan)
	if err != nil {
		return nil, err
	}
	compiled, err := plan.Compile(text)
	if err != nil {
		return nil, err
	}
	cp.programs.put(cp.programs.byHash, sub.PlanSHA256, &program{Program: compiled, text: text, hash: sub.PlanSHA256})
	return compiled, nil
}

// isTransient reports whether a read that failed with err may succeed later.
func isTransient(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Unavailable, fault.Timeout, fault.Cancelled, fault.NetworkError, fault.DiskFull:
		return true
	default:
		return false
	}
}

// unusablePlan returns the error for a task if err means that its plan is lost, damaged or in an unknown format.
func unusablePlan(err error) *fault.Error {
	if lost(err) {
		return decide.Unreadable(err)
	}
	return fault.Wrap(fault.InvalidPlan, err, fault.From(err).Message)
}

// toolInfo returns the description of a tool for the plan checker. It returns false for an unknown tool, and for an internal
// tool unless internal is set.
func (cp *compiler) toolInfo(name string, internal bool) (plan.ToolInfo, bool) {
	tool, ok := cp.cfg.Catalogue.Get(name)
	if !ok || (tool.Spec().Internal && !internal) {
		return plan.ToolInfo{}, false
	}
	return toolinfo.Of(tool), true
}
