package plan

import (
	"fmt"
	"strings"
)

// Approval configures the approval of a tool step's call. The policy of the node decides whether the call needs one.
type Approval struct {
	// Timeout is how long the approval waits; 0 means the default of the node.
	Timeout Duration `json:"timeout,omitempty"`
	// OnExpiry is block (default), fail, continue (the step is skipped) or escalate.
	OnExpiry string `json:"on_expiry,omitempty"`
	// From lists the only people who may decide; empty means anybody.
	From []string `json:"from,omitempty"`
	// Quorum is how many people must agree; default 1.
	Quorum int `json:"quorum,omitempty"`
}

// approval parses the approval settings of a call.
func (c cursor) approval() *Approval {
	a := &Approval{}
	c.object(map[string]func(cursor){
		"timeout":   func(c cursor) { a.Timeout = c.duration() },
		"on_expiry": func(c cursor) { a.OnExpiry = c.oneOf("block", "fail", "continue", "escalate") },
		"from":      func(c cursor) { a.From = c.people() },
		"quorum":    func(c cursor) { a.Quorum = c.count(maxQuorum) },
	})
	c.checkQuorum(a.From, a.Quorum)
	return a
}

// people parses the list of people who may decide about an approval.
func (c cursor) people() []string {
	for _, item := range c.list() {
		if who := item.text(); !strings.HasPrefix(who, "user:") || who == "user:" {
			item.report("the name "+quote(who)+" is none of a person", "people decide about approvals: user:NAME")
		}
	}
	return c.texts()
}

// checkQuorum reports a quorum that cannot be reached.
func (c cursor) checkQuorum(from []string, quorum int) {
	if len(from) > 0 && quorum > len(from) {
		c.field("quorum").report(fmt.Sprintf("%d people have to agree, but `from` names %d", quorum, len(from)), "")
	}
}
