package server

import (
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/spell"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/work"
)

// toolView is the catalogue as a client sees it: the visible tools, with their names and descriptions.
type toolView struct {
	*core

	agents *agentList
	// own are the server's own tools.
	own          []ownTool
	descriptions descriptions
	pages        toolPages
}

// forget clears the caches, after the tools have changed.
func (v *toolView) forget() {
	v.descriptions.forget()
	v.pages.forget()
}

// find reports whether a client may call the tool of that name. It also returns the tool; tool is nil for an own tool.
func (v *toolView) find(c client, name string) (tool tools.Tool, ok bool) {
	if tool, ok = v.cfg.Catalogue.Get(name); ok {
		return tool, v.cfg.Offer.Show.shows(tool) && c.who.sees(tool)
	}
	return nil, c.who.Show.showsOwn(name)
}

// narrowed reports whether a selection restricts the tools of the client.
func (v *toolView) narrowed(c client) bool { return !v.cfg.Offer.Show.all() || !c.who.Show.all() }

// restrict restricts a submission to the permissions of the client. A plan, and child tasks, may use only tools that the client
// may call. An identity that may not decide approvals cannot grant permissions. The idempotency keys of an identity that sees
// only its own tasks are separate from the keys of other identities.
func (v *toolView) restrict(c client, r *api.SubmitRequest) error {
	if !c.who.Role.decides() {
		r.Within = []events.Allow{{}}
	}
	if !c.who.Role.seesAll() {
		r.KeysOf = c.who.Name
	}
	if isSession := r.ID != "" && r.ID == r.Session; c.call != "" && !isSession {
		ref, err := work.ParseRef(c.call)
		if err != nil {
			return fault.From(err).WithField(metaCall)
		}
		r.For = &ref
	}
	if !v.narrowed(c) {
		return nil
	}
	r.Tools = slices.DeleteFunc(slices.Clone(v.cfg.Catalogue.Names()), func(name string) bool {
		_, ok := v.find(c, name)
		return !ok
	})
	if len(r.Tools) == 0 {
		return fault.New(fault.Forbidden, "%s may call no tool of the catalogue", c.who.Name)
	}
	return nil
}

// nearestTool returns the tool with the most similar name, as the client sees it; empty for none.
func (v *toolView) nearestTool(c client, name string) string {
	var names []string
	shown := v.portableNames()
	for _, known := range v.cfg.Catalogue.Names() {
		if _, ok := v.find(c, known); ok {
			names = append(names, shownName(known, shown))
		}
	}
	for _, own := range v.own {
		if v.cfg.Offer.Show.showsOwn(own.name) && c.who.Show.showsOwn(own.name) {
			names = append(names, own.name)
		}
	}
	return spell.Nearest(name, names)
}

// unknownTool returns the error for a tool that the client does not see.
func (v *toolView) unknownTool(c client, name string) error {
	text := "unknown tool " + quoted(name)
	if near := v.nearestTool(c, name); near != "" {
		text += "; did you mean " + near + "?"
	}
	return invalidParams(text)
}

// ownTool returns the own tool of that name.
func (v *toolView) ownTool(name string) (ownTool, bool) {
	for _, t := range v.own {
		if t.name == name && v.cfg.Offer.Show.showsOwn(name) {
			return t, true
		}
	}
	return ownTool{}, false
}

// instructions returns the instructions for clients of a profile, with the names that tools have in the profile.
func (v *toolView) instructions(profile string) string {
	text := "Every call of a tool is a durable task: it survives restarts, may wait for the approval of a person, and stays in an audit log. " +
		"A call that takes long answers with handed_back and a task id, and goes on: do not repeat it"
	if name := nameIn(profile, toolResult); name != "" {
		text += ", " + name + " waits for its end"
	}
	text += "."
	if name := nameIn(profile, toolSubmit); name != "" {
		text += " " + name + " runs a plan of many calls."
	}
	switch {
	case v.cfg.Root == "":
	case profileTools(profile) != nil:
		text += " Paths are relative to " + v.cfg.Root + ", or absolute and lie below it."
	default:
		text += " Paths are absolute and lie below " + v.cfg.Root + "."
	}
	return text
}
