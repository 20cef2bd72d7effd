package decide

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

// resultRead returns the tool with which a model reads on in a result that is longer than what it sees. It is a view of the history:
// its result is the recorded one, and nothing is called.
func resultRead() offeredTool {
	return offeredTool{Tool: models.Tool{
		Name: plan.ResultReadTool, Description: "Read on in the result of an earlier call that was not shown completely",
		Schema: json.RawMessage(`{"type":"object","required":["call","offset"],"properties":{` +
			`"call":{"type":"string","description":"The call, such as t3.c1"},` +
			`"offset":{"type":"integer","minimum":0,"description":"The first byte to show"}},"additionalProperties":false}`),
	}}
}

// resultPart is a part of a result: the arguments of RESULT_READ.
type resultPart struct {
	Call   string `json:"call"`
	Offset int    `json:"offset"`
}

// readOn answers a call of RESULT_READ: it reuses the result of the call that it names, of which conversation.shownResult shows the part.
func (t turns) readOn(key string, args json.RawMessage) {
	part, err := partOf(args)
	earlier := t.Task.Steps[t.step.Key+"."+part.Call]
	if err == nil && (!strings.Contains(part.Call, ".c") || earlier == nil || earlier.State != statemachine.StepSucceeded) {
		err = fault.New(fault.NotFound, "there is no result of a call %q", brief(part.Call)).WithField("call")
	}
	if err != nil {
		t.deny(key, plan.ResultReadTool, string(args), fault.From(err))
		return
	}
	t.Emit(events.StepReused, &events.Reused{Step: key, From: t.Task.ID, Output: t.again(earlier.Output)})
}

// partOf parses the arguments of RESULT_READ.
func partOf(args json.RawMessage) (resultPart, error) {
	var part resultPart
	if err := json.Unmarshal(args, &part); err != nil || part.Call == "" || part.Offset < 0 {
		return part, fault.New(fault.ValidationError, "it takes a call and an offset").WithHint(`such as {"call":"t3.c1","offset":65536}`)
	}
	return part, nil
}

// from returns the part of a text from an offset on, which is moved to the beginning of a character.
func from(text string, offset int) (string, int) {
	offset = min(offset, len(text))
	for offset < len(text) && !utf8.RuneStart(text[offset]) {
		offset++
	}
	return text[offset:], offset
}

// excerpt says which bytes of a text are shown, and how a model reads on. call is the call whose result it is; "" if it cannot.
func excerpt(shown string, offset, total int, call string) string {
	if offset+len(shown) == total && offset == 0 {
		return shown
	}
	if call == "" {
		return fmt.Sprintf("%s\n[%d of %d bytes are shown; ask for a smaller part]", shown, len(shown), total)
	}
	end := offset + len(shown)
	note := fmt.Sprintf("bytes %d to %d of %d are shown", offset, end, total)
	if end < total {
		note += fmt.Sprintf(`; %s {"call":%q,"offset":%d} reads on`, plan.ResultReadTool, call, end)
	}
	return shown + "\n[" + note + "]"
}
