package api

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/orch-dev/orch/events"
)

// OwnPrefix is the prefix of the names of internal tasks, in which the node records its own events. A request lists internal
// tasks only if it names them. @last never means an internal task.
const OwnPrefix = events.OwnPrefix

// PartName is the prefix of the names of tasks that run a part of a for_each; the name of its task follows.
const PartName = events.PartName

// SessionName is the prefix of the names of the tasks that represent sessions.
const SessionName = OwnPrefix + "session/"

// UndoPreviewName is the name of the tasks that only report what an undo would put back.
const UndoPreviewName = OwnPrefix + "undo-preview"

// SessionEnd is the signal that ends a session.
const SessionEnd = "session.end"

// ReasonSessionOver is the reason of the CONFLICT of a task in a session that has ended.
const ReasonSessionOver = "SESSION_OVER"

// SessionPlan returns the plan of a session, which ends by itself after life.
func SessionPlan(life time.Duration) json.RawMessage {
	return fmt.Appendf(nil, `{"name":"session","orch":"v1","steps":[{"id":"open","wait":{"default":{"reason":"its time is over"},`+
		`"signal":%q,"timeout":%q}}],"summary":"The context of the calls of one client"}`, SessionEnd, life)
}

// GrantsName is the name of the tasks that store the permanent grants of a person.
const GrantsName = OwnPrefix + "grants"
