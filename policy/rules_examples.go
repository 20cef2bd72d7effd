package policy

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// ExampleResult is the result of testing an example of a rule.
type ExampleResult struct {
	Rule    string  `json:"rule"`
	Example Example `json:"example"`
	// Want is true if the rule must match. OK is true if the example passed.
	Want bool `json:"want"`
	OK   bool `json:"ok"`
	// Problem is the reason why the example failed.
	Problem string `json:"problem,omitempty"`
	// Skipped is the reason why the example was not tested. OK is then true.
	Skipped string `json:"skipped,omitempty"`
}

// CheckExamples tests the examples of the policy file. The error is VALIDATION_ERROR with the position of the first
// failing example. It skips examples with tools of external MCP servers that are unavailable now.
func (p *Policy) CheckExamples(catalogue *tools.Catalogue) ([]ExampleResult, error) {
	var all []ExampleResult
	var failed error
	if p.rules == nil {
		return nil, nil
	}
	for i := range p.rules.List {
		r := &p.rules.List[i]
		for j, e := range append(append([]Example{}, r.Match...), r.NoMatch...) {
			t := ExampleResult{Rule: r.Name, Example: e, Want: j < len(r.Match)}
			if t.Skipped = whySkipped(e.Tool, catalogue); t.Skipped == "" {
				t.Problem = p.tryExample(r, e, t.Want, catalogue)
			}
			t.OK = t.Problem == ""
			if !t.OK && failed == nil {
				failed = fault.New(fault.ValidationError, "the rule %s fails its example: %s", r.Name, t.Problem).WithField(e.At).
					WithHint("see: orch policy test FILE --examples")
			}
			all = append(all, t)
		}
	}
	return all, failed
}

// whySkipped returns why an example with a tool of an external MCP server cannot be tested now, or "".
func whySkipped(name string, catalogue *tools.Catalogue) string {
	tool, ok := catalogue.Get(name)
	switch {
	case ok && tool.Spec().Unlisted:
		return "calls of it are refused for now"
	case !ok && (strings.Contains(name, "__") || strings.Contains(name, ".")):
		return "no server is known to have it"
	default:
		return ""
	}
}

// tryExample tests an example and returns the problem, or "".
func (p *Policy) tryExample(r *Rule, e Example, want bool, catalogue *tools.Catalogue) string {
	tool, ok := catalogue.Get(e.Tool)
	if !ok {
		problem := "there is no tool " + strconv.Quote(e.Tool)
		if near := catalogue.Suggest(e.Tool); near != "" {
			problem += "; did you mean " + near + "?"
		}
		return problem
	}
	args := e.Args
	if args == nil {
		args = json.RawMessage("{}")
	}
	args, err := tool.Check(p.fromRoot(tool.Spec(), args))
	if err != nil {
		return err.Error()
	}
	switch match := r.matches(p.facts(p.CallFromLog(tool.Spec(), "", args, e.Agent))); {
	case match == maybe:
		return "whether it matches cannot be told before the call"
	case want && match == no:
		return "it does not match"
	case !want && match == yes:
		return "it matches"
	}
	return ""
}

// CallFromLog reconstructs a call from the log: the tool, the arguments and the submitter of the task. Symbolic links
// and the intent of the tool are not recorded. CallFromLog therefore uses the paths as they are written. For a tool
// that uses the network, the targets are the URLs in its arguments.
func (p *Policy) CallFromLog(spec tools.Spec, task events.TaskID, args json.RawMessage, agent string) *Call {
	c := &Call{
		Spec: &spec, State: statemachine.InProgress, Args: args, Agent: agent, Task: task,
		Paths: map[string]string{}, Workspace: filepath.Join(p.working, string(task)),
	}
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return c
	}
	for _, path := range spec.Paths {
		p.eachPath(path.Field, fields[path.Field], func(field, name string) { c.Paths[field] = name })
	}
	if spec.OpenWorld || spec.RateClass() == tools.External || spec.RateClass() == tools.Database {
		c.Intent.Targets = urls(fields)
	}
	return c
}

// eachPath calls visit with the absolute form of each path in the value of a field.
func (p *Policy) eachPath(field string, value any, visit func(field, name string)) {
	switch v := value.(type) {
	case string:
		if v != "" {
			visit(field, p.absolute(v))
		}
	case []any:
		for i, item := range v {
			p.eachPath(field+"["+strconv.Itoa(i)+"]", item, visit)
		}
	}
}

func (p *Policy) absolute(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(p.root, name)
}

// fromRoot makes the paths of an example absolute, so that they can be written relative to the root.
func (p *Policy) fromRoot(spec tools.Spec, args json.RawMessage) json.RawMessage {
	fields := argFields(args)
	for _, path := range spec.Paths {
		var name string
		if json.Unmarshal(fields[path.Field], &name) != nil || name == "" {
			continue
		}
		if raw, err := json.Marshal(p.absolute(name)); err == nil {
			fields[path.Field] = raw
		}
	}
	raw, err := json.Marshal(fields)
	if err != nil || fields == nil {
		return args
	}
	return raw
}

// urls returns the endpoints of the URLs in arguments.
func urls(value any) []tools.Target {
	var all []tools.Target
	switch v := value.(type) {
	case string:
		if u, err := url.Parse(v); err == nil && u.Host != "" && u.Scheme != "" {
			all = append(all, tools.Target{Kind: tools.Endpoint, Name: endpointOf(u)})
		}
	case []any:
		for _, item := range v {
			all = append(all, urls(item)...)
		}
	case map[string]any:
		for _, item := range v {
			all = append(all, urls(item)...)
		}
	}
	return all
}

// endpointOf returns the endpoint of a URL: scheme, host and port, without user and path.
func endpointOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	host := plainHost(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return strings.ToLower(u.Scheme) + "://" + strings.TrimSuffix(host+":"+port, ":")
}
