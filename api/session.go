package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// OwnPrefix begins the names of tasks by which the node notes what happens to itself. They are no work of anybody: they
// stand in lists that ask for them by name, and are never @last.
const OwnPrefix = "orch/"

// SessionName begins the names of sessions.
const SessionName = OwnPrefix + "session/"

// SessionEnd is the signal that ends a session.
const SessionEnd = "session.end"

// ReasonSessionOver is the reason of the CONFLICT of a task in a session that is over.
const ReasonSessionOver = "SESSION_OVER"

// SessionPlan is the plan of a session, which ends by itself after a time.
func SessionPlan(life time.Duration) json.RawMessage {
	return fmt.Appendf(nil, `{"name":"session","orch":"v1","steps":[{"id":"open","wait":{"default":{"reason":"its time is over"},`+
		`"signal":%q,"timeout":%q}}],"summary":"The context of the calls of one client"}`, SessionEnd, life)
}

// GrantsName is the name of the tasks that keep what holds for all sessions of a person.
const GrantsName = OwnPrefix + "grants"
