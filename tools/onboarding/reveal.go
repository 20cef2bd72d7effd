package onboarding

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
)

// once finds the placeholders of secrets.
var once = regexp.MustCompile(strings.Replace(regexp.QuoteMeta(Once), "%s", "(agent-[0-9a-z]{26})", 1))

// Reveal puts the secrets of new credentials into the result of a task that has registered agents, for whoever asked
// for that, and the first time only. Any other result comes back as it is.
func Reveal(ctx context.Context, service agents.Service, task events.TaskID, by string, result json.RawMessage) json.RawMessage {
	asked := map[string]bool{}
	for _, found := range once.FindAllSubmatch(result, -1) {
		id := string(found[1])
		if asked[id] {
			continue
		}
		asked[id] = true
		got, err := service.Collect(ctx, agents.Collection{Task: task, Agent: id, By: by})
		if err != nil {
			continue
		}
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, OnceKey, id), []byte(got.Key))
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, Once, id), []byte(got.Secret))
	}
	return result
}
