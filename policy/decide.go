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
	// Spec is the contract of the tool. It is not changed.
	Spec  *tools.Spec
	State statemachine.State
	// Args are the checked arguments, a JSON object.
	Args json.RawMessage
	// Paths maps each path field of the call to its resolved absolute path; an element of a list is
	// "field[i]". Optional fields that were left out are absent.
	Paths map[string]string
	Task  events.TaskID
	// Agent is the submitter of the task, such as user:ada. For a sub-plan it is the submitter of the first ancestor,
	// for a single call inside a task the caller. It is empty when unknown.
	Agent string
	// Workspace is the absolute path Working/TASK_<id> of the task.
	Workspace string
	// Start is the absolute path of the directory in which its programs start.
	Start string
	// Project are the folders of the session's project; empty outside of sessions. Writes is the mode of writing in
	// them: WritesAsk, WritesSession or WritesAllow.
	Project []string
	Writes  string
	// Roots are absolute paths. The call may use only files below them and in the workspace. Empty means the whole root
	// (S2-050).
	Roots []string
	// Intent describes what this call would do, according to the tool.
	Intent tools.Intent
	// Allow lists the targets that the approved plan of the task permits.
	Allow Allow
	// Within contains the Allow lists of the ancestors that spawned this task. An entry of Allow counts only if all of
	// them permit it too (S0-181).
	Within []Allow
	// Scopes are the scopes granted to the task (ApprovalRequest.Scopes).
	Scopes []string
	// Program is the file that the call runs (OwnProgram): its real path and the digest of its current content. It is
	// zero when that is unknown or irrelevant.
	Program events.Program
	// Recent counts the calls of the same rate class that the task made in the last minute. RetryAfter is how long
	// until the oldest of them is a minute old (S0-113).
	Recent     int
	RetryAfter time.Duration
}

// Allow lists the targets that the plan of a task permits without a separate approval.
type Allow struct {
	// Paths are deliverables, absolute or relative to the root: files, or directories with everything below them.
	Paths []string `json:"paths,omitempty"`
	// Endpoints, Connections and Packages are names of targets (tools.Target); an endpoint may be a URL or a host.
	Endpoints   []string `json:"endpoints,omitempty"`
	Connections []string `json:"connections,omitempty"`
	Packages    []string `json:"packages,omitempty"`
	// Programs are programs of the user, with the digest of their content at submission.
	Programs []events.Program `json:"programs,omitempty"`
}

// Admit returns STATE_NOT_ALLOWED if the call may not run in the state of its task (S0-003), and READ_ONLY if this node
// may not run it. Admit needs neither paths nor an intent.
func (p *Policy) Admit(c *Call) error {
	if err := p.checkState(c); err != nil {
		return err
	}
	if c.Intent.Effect == "" && (c.Spec.Approval == tools.ByIntent || c.Spec.Approval == tools.ByEffect) {
		return nil // the intent decides
	}
	return p.checkReadOnly(c)
}

// Decide returns an error if the call may not run, or the approval that it needs first. Both are nil if it may run now.
// The checks run in this order, and the first failure decides:
//
//  1. the state gate: STATE_NOT_ALLOWED (S0-003)
//  2. a read-only node: READ_ONLY, except for tools that only write to the log
//  3. the rate limit of the task: RATE_LIMITED (S0-113)
//  4. protected paths: PROTECTED_PATH; no approval lifts it. The workspaces of other tasks
//     are protected too, except from a tool with an approval rule for paths outside of the workspace (S0-035)
//  5. secrets in the content: SECRET_DETECTED (S0-036); no approval lifts it
//  6. interactive commands: VALIDATION_ERROR with the reason INTERACTIVE (S0-084)
//  7. forced changes of protected branches: FORBIDDEN (S0-108); no approval lifts it
//  8. the policy file: FORBIDDEN with the reason POLICY_DENIED; no approval lifts it
//  9. the approval rule of the tool (S0-004), to which the policy file may add its own
func (p *Policy) Decide(c *Call) (*Ask, error) {
	for _, check := range [...]func(*Policy, *Call) error{
		(*Policy).checkState, (*Policy).checkReadOnly, (*Policy).checkRate, (*Policy).checkRoots, (*Policy).checkProtected,
		(*Policy).checkSecrets, (*Policy).checkInteractive, (*Policy).checkForced, (*Policy).checkRules,
	} {
		if err := check(p, c); err != nil {
			return nil, err
		}
	}
	ask := p.askFor(c)
	if ask == nil && !c.inGate() {
		return nil, stateNotAllowed(c)
	}
	return p.addRulesAsk(c, ask), nil
}

// Effect returns the effect of the call: Destructive for a command that is classified as destructive, else the effect
// of its intent, else the effect of the tool.
func (p *Policy) Effect(c *Call) tools.Effect {
	if class, ok := p.class(c); ok && class.Destructive && !p.onlyInProject(c) {
		return tools.Destructive
	}
	if c.Intent.Effect != "" {
		return c.Intent.Effect
	}
	return c.Spec.Effect
}

func (p *Policy) checkState(c *Call) error {
	if c.inGate() || c.mayAsk() {
		return nil
	}
	return stateNotAllowed(c)
}

func (c *Call) inGate() bool { return slices.Contains(c.Spec.Gate.States(), c.State) }

func stateNotAllowed(c *Call) error {
	allowed := c.Spec.Gate.States()
	names := make([]string, len(allowed))
	for i, s := range allowed {
		names[i] = string(s)
	}
	return fault.New(fault.StateNotAllowed, "%s may not run while the task is %s; allowed states: %s",
		c.Spec.Name, c.State, strings.Join(names, ", "))
}

// mayAsk reports whether a tool that runs while an approval is pending may request one now.
func (c *Call) mayAsk() bool {
	return c.Spec.Gate == tools.AwaitingApproval && statemachine.Check(c.State, events.TaskApprovalRequested) == nil
}

func (p *Policy) checkReadOnly(c *Call) error {
	if !p.readOnly || c.Spec.LogOnly || (c.Spec.Effect == tools.Read && c.Intent.Effect == "") || c.Intent.Effect == tools.Read {
		return nil
	}
	return fault.New(fault.ReadOnly, "%s changes something and this node is read-only", c.Spec.Name).
		WithHint("run the task on a node that is not read-only")
}

// checkRoots returns OUTSIDE_ROOT for a path outside of the roots of the task's client.
func (p *Policy) checkRoots(c *Call) error {
	if len(c.Roots) == 0 {
		return nil
	}
	for _, field := range c.pathFields() {
		name := c.Paths[field]
		if !shell.Within(name, c.Workspace) && !slices.ContainsFunc(c.Roots, func(root string) bool { return shell.Within(name, root) }) {
			return fault.New(fault.OutsideRoot, "%s lies outside of the roots of the client", name).WithField(field)
		}
	}
	return nil
}

func (p *Policy) checkProtected(c *Call) error {
	for _, t := range c.accesses() {
		if why := p.whyDenied(c, t); why != "" {
			return protected(t.field, "%s is protected: %s", t.path, why)
		}
	}
	return nil
}

func protected(field, format string, args ...any) *fault.Error {
	return fault.New(fault.ProtectedPath, format, args...).WithField(field).
		WithHint("protected paths stay closed even with an approval; use another path")
}

// CheckDescendant checks a path below the directory of a field that the call moves or deletes. It returns
// PROTECTED_PATH when the path itself is protected, and FORBIDDEN when the policy file hides it from the call; moving
// it elsewhere would reveal it.
func (p *Policy) CheckDescendant(c *Call, field, path string) error {
	if why := p.whyDenied(c, pathAccess{field, filepath.Clean(path), access(c.Spec, field)}); why != "" {
		return protected(field, "%s would be moved or deleted too, and it is protected: %s", path, why)
	}
	return p.checkHidden(c, filepath.Clean(path))
}

// whyDenied returns why a call may not access a path, or "" if it may.
func (p *Policy) whyDenied(c *Call, t pathAccess) string {
	if why := p.whyProtected(t.path, t.access, c.Workspace); why != "" {
		return why
	}
	return p.whyForeign(c, t)
}

// pathAccess is an access of a call to a path. field is the input that names the path; path is cleaned.
type pathAccess struct {
	field, path string
	access      tools.Access
}

// accesses lists the paths of a call: those of its inputs, sorted by name, then those of its intent.
func (c *Call) accesses() []pathAccess {
	var all []pathAccess
	for _, field := range c.pathFields() {
		all = append(all, pathAccess{field, filepath.Clean(c.Paths[field]), access(c.Spec, field)})
	}
	for _, f := range c.Intent.Files {
		all = append(all, pathAccess{f.Field, filepath.Clean(f.Path), f.Access})
	}
	return all
}

// pathFields returns the names in Paths, sorted.
func (c *Call) pathFields() []string {
	if len(c.Paths) == 0 {
		return nil
	}
	names := slices.AppendSeq(make([]string, 0, len(c.Paths)), maps.Keys(c.Paths))
	slices.Sort(names)
	return names
}

// whyForeign returns why a call may not change a path in the workspace of another task, or "" if it may. It does not
// apply to tools with an approval rule for paths outside of the workspace (S0-035).
func (p *Policy) whyForeign(c *Call, t pathAccess) string {
	switch {
	case t.access == tools.ReadPath || c.Spec.Approval == tools.OutsideWorkspace:
	case shell.Within(t.path, p.working) && !shell.Within(t.path, c.Workspace):
		return "it belongs to the workspace of another task"
	}
	return ""
}

// access returns how the tool accesses the path in a field; ReadPath if its Spec does not declare that.
func access(s *tools.Spec, field string) tools.Access {
	name, _, _ := strings.Cut(field, "[")
	for _, path := range s.Paths {
		if path.Field == name {
			return path.Access
		}
	}
	return tools.ReadPath
}

// whyProtected returns why the access is refused, or "" if it is permitted. The data directory may not even be read,
// because it contains credentials. Metadata of repositories and of the node, and files with names of secrets, may not
// be changed in any directory. The configured patterns do not apply inside the task's own workspace, where a task may
// write its own Makefile.
func (p *Policy) whyProtected(path string, access tools.Access, workspace string) string {
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

// isNotes reports whether a path is one of the notes that the node writes beside the workspace of a task.
func (p *Policy) isNotes(path string) bool {
	dir, name := filepath.Split(path)
	return (name == "PROGRESS.md" || name == "CHECKPOINTS.md") && filepath.Dir(filepath.Clean(dir)) == p.working
}

func (p *Policy) checkSecrets(c *Call) error {
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

func (p *Policy) checkInteractive(c *Call) error {
	class, ok := p.class(c)
	if !ok || !class.Interactive {
		return nil
	}
	return fault.New(fault.ValidationError, "the command is interactive: %s", class.Reason).
		WithReason("INTERACTIVE").WithField(c.Spec.Command).
		WithHint("commands run without terminal and input; use a form that asks nothing")
}

// class classifies the command of a call. It returns false if the call has none.
func (p *Policy) class(c *Call) (shell.Class, bool) {
	command, ok := c.command()
	if !ok {
		return shell.Class{}, false
	}
	dir := cmp.Or(c.Paths["working_directory"], c.Start, filepath.Join(c.Workspace, "workspace"))
	return shell.Classify(command, shell.Context{Dir: dir, Workspace: c.Workspace, Places: c.Writable(), Env: c.environment()}), true
}

// environment returns the names of the variables that the call sets for its command.
func (c *Call) environment() []string {
	var values map[string]json.RawMessage
	if c.Spec.Environment == "" || json.Unmarshal(argFields(c.Args)[c.Spec.Environment], &values) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(values))
}

// command returns the shell command that the call would run.
func (c *Call) command() (string, bool) {
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
