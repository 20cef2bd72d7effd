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

// Tried is what became of an example of a rule.
type Tried struct {
	Rule    string  `json:"rule"`
	Example Example `json:"example"`
	// Want says whether the rule has to match, OK whether it did as it has to.
	Want bool `json:"want"`
	OK   bool `json:"ok"`
	// Problem says why not.
	Problem string `json:"problem,omitempty"`
	// Skipped says why an example was not tried; it is OK then.
	Skipped string `json:"skipped,omitempty"`
}

// CheckExamples tries the examples of the policy file. The error is that of the first one that fails:
// VALIDATION_ERROR with its place. Examples with tools of outside servers that cannot be called now are not tried: those
// come and go.
func (p *Policy) CheckExamples(catalogue *tools.Catalogue) ([]Tried, error) {
	var all []Tried
	var failed error
	if p.rules == nil {
		return nil, nil
	}
	for i := range p.rules.List {
		r := &p.rules.List[i]
		for j, e := range append(append([]Example{}, r.Match...), r.NoMatch...) {
			t := Tried{Rule: r.Name, Example: e, Want: j < len(r.Match)}
			if t.Skipped = absent(e.Tool, catalogue); t.Skipped == "" {
				t.Problem = p.try(r, e, t.Want, catalogue)
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

// absent says why a tool of an outside server cannot be tried now, "" for all other tools.
func absent(name string, catalogue *tools.Catalogue) string {
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

// try says what is wrong with an example, "" when nothing is.
func (p *Policy) try(r *Rule, e Example, want bool, catalogue *tools.Catalogue) string {
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
	switch found := r.matches(p.facts(p.Recall(tool.Spec(), "", args, e.Agent))); {
	case found == maybe:
		return "whether it matches cannot be told before the call"
	case want && found == no:
		return "it does not match"
	case !want && found == yes:
		return "it matches"
	}
	return ""
}

// Recall makes a call out of what the log has of one: the tool, the arguments and who submitted the task. Paths are
// taken as they are written, and the targets are the URLs among the arguments of tools that reach out of
// the machine, since what the links and the tool said then is not recorded.
func (p *Policy) Recall(spec tools.Spec, task events.TaskID, args json.RawMessage, agent string) Call {
	c := Call{
		Spec: spec, State: statemachine.InProgress, Args: args, Agent: agent, Task: task,
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

// eachPath visits the paths in the value of a field, made absolute.
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

// fromRoot makes the paths of an example absolute, so that it can be written without the root.
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

// urls finds the targets that arguments name.
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

// endpointOf names a target without the user and the path; the port is always written.
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
