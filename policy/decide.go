package policy

import (
	"cmp"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/classify/shell"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// Call is one tool call to decide about.
type Call struct {
	Spec  tools.Spec
	State statemachine.State
	// Args are the checked arguments, a JSON object.
	Args json.RawMessage
	// Paths maps each path field of the call to its resolved absolute path; an element of a list is
	// "field[i]". Optional fields that were left out are absent.
	Paths map[string]string
	Task  events.TaskID
	// Agent is who submitted the task, such as user:ada; that of a sub-plan is whoever submitted the first task,
	// that of a single call inside a task whoever made it. Empty when it is not known.
	Agent string
	// Workspace is the absolute path Working/TASK_<id> of the task.
	Workspace string
	// Start is the absolute path of the directory where its programs start.
	Start string
	// Project are the folders of the project that the session of the call works in, Writes how it is written: WritesAsk,
	// WritesSession or WritesAllow. None outside of sessions.
	Project []string
	Writes  string
	// Roots are absolute paths: files outside of them and of the workspace are out of reach. None means all of the
	// root (S2-050).
	Roots []string
	// Intent is what the tool says that this call would do.
	Intent tools.Intent
	// Allow is what the approved plan of the task opens.
	Allow Allow
	// Within is what the plans of the tasks above open that have spawned this one: what Allow opens counts only
	// as far as each of them opens it too (S0-181).
	Within []Allow
	// Scopes are those that were granted to the task (ApprovalRequest.Scopes).
	Scopes []string
	// Program is the file that the call runs (OwnProgram), by its real path and with its content as it is now; zero when that is
	// not known or does not matter.
	Program events.Program
	// Recent is how many calls of the same class the task has made in the last minute, RetryAfter when the
	// oldest of them is a minute old (S0-113).
	Recent     int
	RetryAfter time.Duration
}

// Allow is what the plan of a task opens without an approval of its own.
type Allow struct {
	// Paths are deliverables, absolute or relative to the root: files, or directories with all that is
	// below them.
	Paths []string `json:"paths,omitempty"`
	// Endpoints, Connections and Packages are names of targets (tools.Target); an endpoint may be a URL or
	// a host alone.
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are programs of the user's own, with the content that was submitted.
	Programs []events.Program `json:"programs,omitempty"`
}

// Admit returns why the call may not run at all in this state or on this node: STATE_NOT_ALLOWED (S0-003),
// READ_ONLY. It needs neither paths nor an intent.
func (p *Policy) Admit(c Call) error {
	if err := p.gate(c); err != nil {
		return err
	}
	if c.Intent.Effect == "" && c.Spec.Approval == tools.ByIntent {
		return nil // the intent decides
	}
	return p.writable(c)
}

// Decide returns why the call may not run, or what somebody has to allow first; neither when it may run
// now. The checks come in this order, and the first that fails decides:
//
//  1. the state gate: STATE_NOT_ALLOWED (S0-003)
//  2. a read-only node: READ_ONLY, but for tools that only write to the log
//  3. the rate limit of the task: RATE_LIMITED (S0-113)
//  4. protected paths: PROTECTED_PATH; no approval lifts it. Workspaces of other tasks belong
//     to them, but not for a tool with an approval rule for paths outside of the workspace (S0-035)
//  5. secrets in the content: SECRET_DETECTED (S0-036); no approval lifts it
//  6. interactive commands: VALIDATION_ERROR with the reason INTERACTIVE (S0-084)
//  7. forced changes of protected branches: FORBIDDEN (S0-108); no approval lifts it
//  8. the policy file: FORBIDDEN with the reason POLICY_DENIED; no approval lifts it
//  9. the approval rule of the tool (S0-004), to which the policy file may add its own
func (p *Policy) Decide(c Call) (*Ask, error) {
	for _, check := range []func(Call) error{p.gate, p.writable, p.unhurried, p.inRoots, p.unprotected, p.noSecrets, p.notInteractive, p.notForced, p.denied} {
		if err := check(c); err != nil {
			return nil, err
		}
	}
	ask := p.ask(c)
	if ask == nil && !c.inGate() {
		return nil, stateNotAllowed(c)
	}
	return p.tighten(c, ask), nil
}

// Effect says what the call would do: that of its intent, Destructive for a command that is classified as
// such, else the effect of the tool.
func (p *Policy) Effect(c Call) tools.Effect {
	if class, ok := p.class(c); ok && class.Destructive && !p.onlyInProject(c) {
		return tools.Destructive
	}
	if c.Intent.Effect != "" {
		return c.Intent.Effect
	}
	return c.Spec.Effect
}

func (p *Policy) gate(c Call) error {
	if c.inGate() || c.parks() {
		return nil
	}
	return stateNotAllowed(c)
}

func (c Call) inGate() bool { return slices.Contains(c.Spec.Gate.States(), c.State) }

func stateNotAllowed(c Call) error {
	allowed := c.Spec.Gate.States()
	names := make([]string, len(allowed))
	for i, s := range allowed {
		names[i] = string(s)
	}
	return fault.New(fault.StateNotAllowed, "%s may not run while the task is %s; allowed states: %s",
		c.Spec.Name, c.State, strings.Join(names, ", "))
}

// parks reports whether the call of a tool that runs while an approval is awaited may ask for one now
//
func (c Call) parks() bool {
	return c.Spec.Gate == tools.AwaitingApproval && statemachine.Check(c.State, events.TaskApprovalRequested) == nil
}

func (p *Policy) writable(c Call) error {
	if !p.readOnly || c.Spec.LogOnly || (c.Spec.Effect == tools.Read && c.Intent.Effect == "") || c.Intent.Effect == tools.Read {
		return nil
	}
	return fault.New(fault.ReadOnly, "%s changes something and this node is read-only", c.Spec.Name).
		WithHint("run the task on a node that is not read-only")
}

// inRoots keeps a call inside of the roots that the client of its task has given.
func (p *Policy) inRoots(c Call) error {
	if len(c.Roots) == 0 {
		return nil
	}
	for _, field := range slices.Sorted(maps.Keys(c.Paths)) {
		name := c.Paths[field]
		if !shell.Within(name, c.Workspace) && !slices.ContainsFunc(c.Roots, func(root string) bool { return shell.Within(name, root) }) {
			return fault.New(fault.OutsideRoot, "%s lies outside of the roots of the client", name).WithField(field)
		}
	}
	return nil
}

func (p *Policy) unprotected(c Call) error {
	for _, t := range c.touches() {
		if why := p.closed(c, t); why != "" {
			return protected(t.field, "%s is protected: %s", t.path, why)
		}
	}
	return nil
}

func protected(field, format string, args ...any) *fault.Error {
	return fault.New(fault.ProtectedPath, format, args...).WithField(field).
		WithHint("protected paths stay closed even with an approval; use another path")
}

// TakesAlong returns PROTECTED_PATH when a call that takes away the directory of a field would take along a path
// below it that is protected itself, and FORBIDDEN for one that the policy file closes to the call; moving it to elsewhere
// makes the path there.
func (p *Policy) TakesAlong(c Call, field, path string) error {
	if why := p.closed(c, touch{field, filepath.Clean(path), access(c.Spec, field)}); why != "" {
		return protected(field, "%s would be taken along, and it is protected: %s", path, why)
	}
	return p.hidden(c, filepath.Clean(path))
}

// closed says why a path is closed to a call, "" when it is not.
func (p *Policy) closed(c Call, t touch) string {
	if why := p.protection(t.path, t.access, c.Workspace); why != "" {
		return why
	}
	return p.foreign(c, t)
}

// touch is a path that a call uses, clean, and the input that names it.
type touch struct {
	field, path string
	access      tools.Access
}

// touches lists the paths of a call: those of its inputs in their order by name, then those of its intent.
func (c Call) touches() []touch {
	var all []touch
	for _, field := range slices.Sorted(maps.Keys(c.Paths)) {
		all = append(all, touch{field, filepath.Clean(c.Paths[field]), access(c.Spec, field)})
	}
	for _, f := range c.Intent.Files {
		all = append(all, touch{f.Field, filepath.Clean(f.Path), f.Access})
	}
	return all
}

// foreign says why the change of another task's workspace is refused, "" when it is not. Tools whose
// approval rule covers paths outside of the workspace keep that rule (S0-035).
func (p *Policy) foreign(c Call, t touch) string {
	switch {
	case t.access == tools.ReadPath || c.Spec.Approval == tools.OutsideWorkspace:
	case shell.Within(t.path, p.working) && !shell.Within(t.path, c.Workspace):
		return "it belongs to the workspace of another task"
	}
	return ""
}

// access returns what the tool does with the path of a field; read when the contract does not say.
func access(s tools.Spec, field string) tools.Access {
	name, _, _ := strings.Cut(field, "[")
	for _, path := range s.Paths {
		if path.Field == name {
			return path.Access
		}
	}
	return tools.ReadPath
}

// protection says why the access is refused, "" when it is not. The data directory is closed to reads
// too, since it holds credentials. Repository and node metadata and files with the name of a secret
// are closed everywhere; the configured patterns do not count inside the own workspace, where a task
// may well write a Makefile of its own.
func (p *Policy) protection(path string, access tools.Access, workspace string) string {
	path = filepath.Clean(path)
	switch {
	case shell.Within(path, p.data):
		return "it belongs to the data directory of the node"
	case access == tools.ReadPath:
		return ""
	case p.rules != nil && filepath.IsAbs(p.rules.File) && shell.Within(p.rules.File, path):
		return "it is the policy file of the node or contains it"
	case shell.Within(p.root, path):
		return "it is the root or contains it"
	case shell.Within(p.working, path):
		return "it is the directory of all workspaces or contains it"
	case shell.Within(p.data, path):
		return "it contains the data directory of the node"
	case shell.Within(path, filepath.Join(p.working, tools.UndoFolder)):
		return "it is what sessions are undone with"
	}
	if p.isNotes(path) {
		return "the node keeps it as the notes of a task"
	}
	rel := strings.TrimPrefix(strings.TrimPrefix(path, p.root), "/")
	if shell.Metadata(rel) {
		return "it belongs to a .git or .orch directory"
	}
	if p.IsSecretFile(path) {
		return "its name is one of files with secrets"
	}
	if p.holdsKey(path) {
		return "it holds a key"
	}
	if pattern := p.pattern(rel); pattern != "" && !shell.Within(path, workspace) {
		return "the pattern " + pattern + " protects it outside the task's workspace"
	}
	return ""
}

// isNotes reports whether a path is one of the notes that the node keeps beside the workspace of a task.
func (p *Policy) isNotes(path string) bool {
	dir, name := filepath.Split(path)
	return (name == "PROGRESS.md" || name == "CHECKPOINTS.md") && filepath.Dir(filepath.Clean(dir)) == p.working
}

func (p *Policy) noSecrets(c Call) error {
	if len(c.Spec.Content) == 0 {
		return nil
	}
	fields := argFields(c.Args)
	for _, field := range c.Spec.Content {
		found := p.findings(content(fields[field]))
		if len(found) > 0 {
			return fault.New(fault.SecretDetected, "the content holds what looks like a secret (rule %s, at byte %d)",
				found[0].Rule, found[0].Offset).WithField(field).
				WithHint("keep the secret out of the content and refer to it, for example by an environment variable")
		}
	}
	return nil
}

func (p *Policy) notInteractive(c Call) error {
	class, ok := p.class(c)
	if !ok || !class.Interactive {
		return nil
	}
	return fault.New(fault.ValidationError, "the command is interactive: %s", class.Reason).
		WithReason("INTERACTIVE").WithField(c.Spec.Command).
		WithHint("commands run without terminal and input; use a form that asks nothing")
}

// class classifies the command of a call; false when the tool has none.
func (p *Policy) class(c Call) (shell.Class, bool) {
	command, ok := c.command()
	if !ok {
		return shell.Class{}, false
	}
	dir := cmp.Or(c.Paths["working_directory"], c.Start, filepath.Join(c.Workspace, "workspace"))
	return shell.Classify(command, shell.Context{Dir: dir, Workspace: c.Workspace, Places: c.Writable(), Env: c.environment()}), true
}

// environment returns the names of the variables that the call sets for its command.
func (c Call) environment() []string {
	var values map[string]json.RawMessage
	if c.Spec.Environment == "" || json.Unmarshal(argFields(c.Args)[c.Spec.Environment], &values) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(values))
}

// command returns the shell command that the call would run.
func (c Call) command() (string, bool) {
	if c.Intent.Command != "" {
		return c.Intent.Command, true
	}
	if c.Spec.Command == "" {
		return "", false
	}
	raw, ok := argFields(c.Args)[c.Spec.Command]
	if !ok {
		return "", false
	}
	var command string
	if json.Unmarshal(raw, &command) != nil {
		return string(raw), true
	}
	return command, true
}

func argFields(args json.RawMessage) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(args, &fields) != nil {
		return nil
	}
	return fields
}

// content returns the text of a JSON string, and any other value as it is.
func content(raw json.RawMessage) []byte {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	return raw
}
