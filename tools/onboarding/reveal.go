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

// oncePattern matches the placeholders of secrets.
var oncePattern = regexp.MustCompile(strings.Replace(regexp.QuoteMeta(Once), "%s", "(agent-[0-9a-z]{26})", 1))

// Reveal replaces the placeholders in the result of a task that registered agents by the secrets of their
// credentials, the first time that the requester asks. Any other result is returned unchanged.
func Reveal(ctx context.Context, service agents.Service, task events.TaskID, by string, result json.RawMessage) json.RawMessage {
	seen := map[string]bool{}
	for _, found := range oncePattern.FindAllSubmatch(result, -1) {
		id := string(found[1])
		if seen[id] {
			continue
		}
		seen[id] = true
		got, err := service.Collect(ctx, agents.Collection{Task: task, Agent: id, By: by})
		if err != nil {
			continue
		}
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, OnceKey, id), []byte(got.Key))
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, Once, id), []byte(got.Secret))
	}
	return result
}
