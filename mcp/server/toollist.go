package server

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/tools"
)

// listTools returns the list of tools for a client: the tools of its profile that it may see, for 2025-11-25 with their task
// support.
func (v *toolView) listTools(c client, list *mcp.ListToolsResult) mcp.Result {
	whole, rest := object{}, *list
	profile := v.profileOf(c)
	if profileTools(profile) != nil {
		rest.Tools, rest.NextCursor = nil, ""
	}
	page := v.page(c, profile, &rest)
	rest.Tools = nil
	decode(mustJSON(&rest), &whole)
	whole["tools"] = c.reservation.lineKey(page)
	if c.modern {
		whole["resultType"] = "complete"
	}
	return &reply{fields: whole}
}

// page returns the tools of a list that a client sees, encoded.
func (v *toolView) page(c client, profile string, list *mcp.ListToolsResult) json.RawMessage {
	key := pageKey{profile: profile, show: c.who.Show.key(), agent: c.who.Agent != "", modern: c.modern, next: list.NextCursor}
	if len(list.Tools) > 0 {
		key.first = list.Tools[0].Name
	}
	return v.pages.get(key, toolPage{tools: list.Tools, catalogue: v.cfg.Catalogue.Replaced()}, func() []json.RawMessage {
		switch {
		case profileTools(profile) != nil:
			return v.listNarrowed(c, profile)
		case patternsOf(profile) != nil:
			return v.listSelected(c, profile, list)
		default:
			return v.listAll(c, list)
		}
	})
}

// jsonList returns a JSON array of encoded values.
func jsonList(items []json.RawMessage) json.RawMessage {
	size := len("[]") + len(items)
	for _, item := range items {
		size += len(item)
	}
	list := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, item...)
	}
	return append(list, ']')
}

// listAll returns the tools of a list that a client sees, with the definitions of the catalogue.
func (v *toolView) listAll(c client, list *mcp.ListToolsResult) (shown []json.RawMessage) {
	names := v.portableNames()
	for _, t := range list.Tools {
		tool, ok := v.cfg.Catalogue.Get(t.Name)
		if ok && (tool.Spec().Unlisted || !c.who.sees(tool)) || !ok && !c.who.Show.showsOwn(t.Name) {
			continue
		}
		key := descriptionKey{tool: t, name: shownName(t.Name, names)}
		if !c.modern {
			key.support = support(tool)
		}
		shown = append(shown, v.descriptions.get(key, func() json.RawMessage { return describeWhole(t, key.name, key.support) }))
	}
	return shown
}

// support returns the taskSupport of a tool (S2-026). It returns NoTask for a nil tool, that is, for the server's own tools.
func support(t tools.Tool) tools.TaskMode {
	if t == nil {
		return tools.NoTask
	}
	switch mode := t.Spec().Tasks; mode {
	case tools.NoTask, tools.OnlyTask:
		return mode
	default:
		return "optional"
	}
}

// descriptions caches the encoded definitions of listed tools, so that each is encoded only once.
type descriptions struct {
	mu     sync.Mutex
	byTool map[descriptionKey]json.RawMessage
	// names caches withoutDots.
	names map[string]string
}

// get returns the cached definition for key. If it is not cached, get calls describe, which may return nil.
func (d *descriptions) get(key descriptionKey, describe func() json.RawMessage) json.RawMessage {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byTool[key]; ok {
		return known
	}
	if d.byTool == nil {
		d.byTool = map[descriptionKey]json.RawMessage{}
	}
	d.byTool[key] = describe()
	return d.byTool[key]
}

// namesOf returns the cached names without dots, or creates them with find.
func (d *descriptions) namesOf(find func() map[string]string) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names = find()
	}
	return d.names
}

// forget clears the cache, after the tools have changed.
func (d *descriptions) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.byTool, d.names = nil, nil
}

// descriptionKey is the cache key of a definition: everything that it depends on.
type descriptionKey struct {
	// tool is the definition registered with the SDK, nil for a tool described by its profile. profile is empty for ProfileAll.
	tool          *mcp.Tool
	profile, name string
	support       tools.TaskMode
}

// describeWhole encodes the definition of a tool with the given name. If support is empty, it omits the task support.
func describeWhole(tool *mcp.Tool, name string, support tools.TaskMode) json.RawMessage {
	fields := object{}
	decode(mustJSON(tool), &fields)
	fields["name"] = name
	if support != "" {
		fields["execution"] = object{"taskSupport": support}
	}
	return mustJSON(fields)
}
