package plan

import (
	"fmt"
	"strings"
)

// Approval says how the call of a tool step is approved, when it needs that. Whether it does is up to the gates of the node.
type Approval struct {
	// Timeout is how long the approval waits; 0 = as the node does.
	Timeout Duration `json:"timeout,omitempty"`
	// OnExpiry is block (default), fail, continue (the step is skipped) or escalate.
	OnExpiry string `json:"on_expiry,omitempty"`
	// From are the only people who may decide; none means any.
	From []string `json:"from,omitempty"`
	// Quorum is how many people have to agree, default 1.
	Quorum int `json:"quorum,omitempty"`
}

// approval reads how a call is approved.
func (c cursor) approval() *Approval {
	a := &Approval{}
	c.object(map[string]func(cursor){
		"timeout":   func(c cursor) { a.Timeout = c.duration() },
		"on_expiry": func(c cursor) { a.OnExpiry = c.oneOf("block", "fail", "continue", "escalate") },
		"from":      func(c cursor) { a.From = c.people() },
		"quorum":    func(c cursor) { a.Quorum = c.count(maxQuorum) },
	})
	c.enough(a.From, a.Quorum)
	return a
}

// people reads a list of those who may decide about an approval.
func (c cursor) people() []string {
	for _, item := range c.list() {
		if who := item.text(); !strings.HasPrefix(who, "user:") || who == "user:" {
			item.report("the name "+quote(who)+" is none of a person", "people decide about approvals: user:NAME")
		}
	}
	return c.texts()
}

// enough reports a quorum that nobody can reach.
func (c cursor) enough(from []string, quorum int) {
	if len(from) > 0 && quorum > len(from) {
		c.at("quorum").report(fmt.Sprintf("%d people have to agree, but `from` names %d", quorum, len(from)), "")
	}
}
