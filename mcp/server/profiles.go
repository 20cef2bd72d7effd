package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// A profile is a view of the tools for one kind of client: a selection of tools, which may have special names, descriptions and
// inputs. A profile is not a security boundary: the policy decides what a call may do, whatever name the call uses.

// The profiles.
const (
	// ProfileAll has every tool under its catalogue name.
	ProfileAll = "all"
	// ProfileCoding has the tools for work on a project, without duplicates, with names that every client accepts.
	ProfileCoding = "coding"
	// ProfileOperations has the tools for managing tasks.
	ProfileOperations = "operations"
	// ProfileNetwork has the tools for agents that work together.
	ProfileNetwork = "network"
)

// Profiles returns the names of the profiles.
func Profiles() []string {
	return []string{ProfileAll, ProfileCoding, ProfileOperations, ProfileNetwork}
}

// CheckProfile returns an error for an unknown profile.
func CheckProfile(name string) error {
	if name == "" || slices.Contains(Profiles(), name) {
		return nil
	}
	return fault.New(fault.ValidationError, "there is no profile %s", quoted(name)).WithField("profile").
		WithHint("profiles are %s", strings.Join(Profiles(), ", "))
}

// profileTool is a tool as a profile shows it.
type profileTool struct {
	// name is the name in the profile, tool the name in the catalogue or the name of one of the server's own tools.
	name, tool string
	// use describes when to use the tool, and when not.
	use string
	// fields are the shown inputs, as "name: description"; the name of an optional input ends in "?".
	fields []string
	// fill are the inputs that the tool requires and the profile hides: JSON values by name.
	fill map[string]string
}

// profileTools returns the tools of a profile that has its own descriptions; nil for any other profile.
func profileTools(profile string) []profileTool {
	if profile == ProfileCoding {
		return codingTools()
	}
	return nil
}

// Behind returns the catalogue name of the tool that a profile shows as name, empty if the profile has no such name.
func Behind(profile, name string) string {
	for _, t := range profileTools(profile) {
		if t.name == name {
			return t.tool
		}
	}
	return ""
}

// patternsOf returns the selection of a profile that uses the descriptions of the catalogue; nil for all tools.
func patternsOf(profile string) *Selection {
	switch profile {
	case ProfileOperations:
		return &Selection{Tools: []string{"orch_*", "system.*", "NOTIFICATION_SEND", "PROJECT_UNDO", "LOG_WRITE", "APPROVAL_*"}}
	case ProfileNetwork:
		return &Selection{Tools: []string{"orch_submit", "orch_status", "orch_result", "orch_cancel", "MESSAGE_*", "AGENT_*", "TASK_SPAWN", "onboarding.*", "system.getAgents", "system.listSkills", "system.getTaskQueue"}}
	default:
		return nil
	}
}

// profileOf returns the profile that a client requests, or the default.
func (v *toolView) profileOf(c client) string {
	if c.note == nil {
		return v.cfg.Offer.Profile
	}
	return cmp.Or(c.note(noteProfile), v.cfg.Offer.Profile)
}

// readProfile records the profile in the URL of a request. It refuses the request if there is no such profile.
func readProfile(w http.ResponseWriter, r *http.Request) bool {
	profile := r.URL.Query().Get("profile")
	if err := CheckProfile(profile); err != nil {
		http.Error(w, fault.From(err).Message+"; "+fault.From(err).Hint, http.StatusBadRequest)
		return false
	}
	if profile != "" {
		r.Header.Set(noteProfile, profile)
	}
	return true
}

// inProfile finds a tool by its name in the client's profile. own is set if the profile has its own descriptions.
func (v *toolView) inProfile(c client, name string) (tool profileTool, own, ok bool) {
	list := profileTools(v.profileOf(c))
	for _, t := range list {
		if t.name == name {
			return t, true, true
		}
	}
	if patterns := patternsOf(v.profileOf(c)); patterns != nil {
		plain := cmp.Or(v.withoutDots()[name], name)
		return profileTool{name: name, tool: plain}, false, patterns.names(plain)
	}
	return profileTool{name: name, tool: name}, list != nil, list == nil
}

// translate turns a call of a profile tool into a call of the catalogue: its name, hidden inputs, and paths
// relative to the project.
func (v *toolView) translate(c client, p *mcp.CallToolParamsRaw) error {
	t, own, ok := v.inProfile(c, p.Name)
	if !ok {
		return invalidParams("the profile " + v.profileOf(c) + " has no tool " + quoted(p.Name) + v.suggestion(c, p.Name))
	}
	p.Name = t.tool
	tool, found := v.cfg.Catalogue.Get(t.tool)
	if !own || !found {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(orEmpty(p.Arguments), &fields) != nil || fields == nil {
		return nil //nolint:nilerr // the tool reports the error
	}
	v.completeArgs(t, tool, fields)
	if t.tool == toolAskPeople {
		v.translatePlanned(c, fields)
	}
	p.Arguments = mustJSON(fields)
	return nil
}

// completeArgs adds the hidden inputs of a profile tool, and makes its paths absolute.
func (v *toolView) completeArgs(t profileTool, tool tools.Tool, fields map[string]json.RawMessage) {
	for name, value := range t.fill {
		if fields[name] == nil {
			fields[name] = json.RawMessage(value)
		}
	}
	for _, at := range tool.Spec().Paths {
		if fields[at.Field] != nil {
			fields[at.Field] = v.absolute(fields[at.Field])
		}
	}
}

// translatePlanned translates the call in a request for an approval, in the same way as translate will when that call is made.
func (v *toolView) translatePlanned(c client, fields map[string]json.RawMessage) {
	var details, args map[string]json.RawMessage
	var name string
	if json.Unmarshal(fields["details"], &details) != nil || json.Unmarshal(details["tool"], &name) != nil {
		return
	}
	t, own, ok := v.inProfile(c, name)
	tool, found := v.cfg.Catalogue.Get(t.tool)
	if !own || !ok || !found || json.Unmarshal(orEmpty(details["arguments"]), &args) != nil || args == nil {
		return
	}
	v.completeArgs(t, tool, args)
	details["tool"], details["arguments"] = mustJSON(t.tool), mustJSON(args)
	fields["details"] = mustJSON(details)
}

// nameFor returns the name under which a client calls a tool, empty if its profile has none.
func (v *toolView) nameFor(c client, tool string) string { return nameIn(v.profileOf(c), tool) }

// absolute joins a relative path to the root. It returns any other value unchanged.
func (v *toolView) absolute(raw json.RawMessage) json.RawMessage {
	var name string
	if json.Unmarshal(raw, &name) != nil || name == "" || filepath.IsAbs(name) {
		return raw
	}
	return mustJSON(filepath.Join(v.cfg.Root, name))
}

// suggestion returns the end of an error message: the name in the client's profile of the tool with the given catalogue name.
func (v *toolView) suggestion(c client, name string) string {
	for _, t := range profileTools(v.profileOf(c)) {
		if t.tool == name {
			return "; it is " + t.name + " here"
		}
	}
	return "; tools/list has them"
}

// listNarrowed returns the tools that a client sees in a profile that has its own descriptions.
func (v *toolView) listNarrowed(c client, profile string) (shown []json.RawMessage) {
	for _, t := range profileTools(profile) {
		if !v.isListed(c, t.tool) || t.tool == toolSpawn && len(v.agents.all()) == 0 {
			continue
		}
		described := v.descriptions.get(descriptionKey{profile: profile, name: t.name}, func() json.RawMessage { return v.describe(t) })
		if described != nil {
			shown = append(shown, described)
		}
	}
	return shown
}

// listSelected returns those tools of a list that a client sees in a profile that uses the descriptions of the catalogue.
func (v *toolView) listSelected(c client, profile string, list *mcp.ListToolsResult) (shown []json.RawMessage) {
	patterns, names := patternsOf(profile), v.withoutDots()
	for _, t := range list.Tools {
		if !patterns.names(t.Name) || !v.isListed(c, t.Name) {
			continue
		}
		key := descriptionKey{tool: t, profile: profile, name: shownName(t.Name, names)}
		shown = append(shown, v.descriptions.get(key, func() json.RawMessage {
			other := *t
			other.Name, other.OutputSchema = key.name, nil // profiles show results as text
			return terseJSON(&other)
		}))
	}
	return shown
}

// isListed reports whether a tool is in the list of a client.
func (v *toolView) isListed(c client, name string) bool {
	tool, ok := v.find(c, name)
	return ok && (tool == nil || !tool.Spec().Unlisted)
}

// describe returns the definition of a profile tool, nil if the tool does not exist.
func (v *toolView) describe(t profileTool) json.RawMessage {
	m := &mcp.Tool{Name: t.name, Description: v.agents.describe(t.tool, t.use)}
	var schema json.RawMessage
	if tool, ok := v.cfg.Catalogue.Get(t.tool); ok {
		m.Annotations, schema = toolOf(tool).Annotations, tool.InputSchema()
		m.Annotations.Title = ""
	} else {
		all, closed := v.own, false
		i := slices.IndexFunc(all, func(o ownTool) bool { return o.name == t.tool })
		if i < 0 || !v.cfg.Offer.Show.showsOwn(t.tool) {
			return nil
		}
		o := all[i]
		m.Annotations = &mcp.ToolAnnotations{ReadOnlyHint: o.reads, DestructiveHint: &closed, OpenWorldHint: &closed}
		schema = mustJSON(object{"properties": o.in, "required": o.need})
	}
	m.Annotations = terse(m.Annotations)
	m.InputSchema = narrowSchema(schema, t.fields)
	return terseJSON(m)
}

// terse removes hints that equal the defaults of MCP.
func terse(hints *mcp.ToolAnnotations) *mcp.ToolAnnotations {
	if hints.ReadOnlyHint || hints.DestructiveHint != nil && *hints.DestructiveHint {
		hints.DestructiveHint = nil // a read-only tool destroys nothing
	}
	if hints.OpenWorldHint != nil && *hints.OpenWorldHint {
		hints.OpenWorldHint = nil
	}
	if hints.ReadOnlyHint {
		hints.IdempotentHint = false
	}
	return hints
}

// terseJSON encodes a tool. It omits hints that are false, because clients assume false by default.
func terseJSON(t *mcp.Tool) json.RawMessage {
	fields := fieldsOf(t)
	hints := map[string]any{}
	if raw, ok := fields["annotations"].(json.RawMessage); ok {
		decode(raw, &hints)
	}
	for _, hint := range []string{"readOnlyHint", "idempotentHint"} {
		if hints[hint] == false {
			delete(hints, hint)
		}
	}
	if fields["annotations"] = hints; len(hints) == 0 {
		delete(fields, "annotations")
	}
	return mustJSON(fields)
}

// narrowSchema reduces a schema to the fields that a profile shows, with the descriptions of the profile.
func narrowSchema(schema json.RawMessage, fields []string) object {
	var whole struct {
		Properties map[string]map[string]json.RawMessage `json:"properties"`
	}
	decode(schema, &whole)
	properties, required := object{}, []string{}
	for _, field := range fields {
		name, words, _ := strings.Cut(field, ": ")
		name, optional := strings.CutSuffix(name, "?")
		kept := object{}
		for _, key := range []string{"type", "enum", "items"} {
			if value := whole.Properties[name][key]; value != nil && !bytes.Equal(value, []byte("null")) {
				kept[key] = value
			}
		}
		if words != "" {
			kept["description"] = words
		}
		properties[name] = kept
		if !optional {
			required = append(required, name)
		}
	}
	narrow := object{"type": "object", "properties": properties}
	if len(required) > 0 {
		narrow["required"] = required
	}
	return narrow
}

// nameIn returns the name of a catalogue tool in a profile, empty if it has none.
func nameIn(profile, tool string) string {
	list := profileTools(profile)
	for _, t := range list {
		if t.tool == tool {
			return t.name
		}
	}
	if patterns := patternsOf(profile); list != nil || patterns != nil && !patterns.names(tool) {
		return ""
	}
	return tool
}
