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

// placeholderPattern matches SecretPlaceholder with the id of an agent.
var placeholderPattern = regexp.MustCompile(strings.Replace(regexp.QuoteMeta(SecretPlaceholder), "%s", "(agent-[0-9a-z]{26})", 1))

// Reveal replaces the placeholders in the result of a task with the credentials of the agents that the task registered.
// It does so once for each agent, and only for the identity that registered the agent. Other placeholders and results
// remain unchanged.
func Reveal(ctx context.Context, service agents.Service, task events.TaskID, by string, result json.RawMessage) json.RawMessage {
	seen := map[string]bool{}
	for _, found := range placeholderPattern.FindAllSubmatch(result, -1) {
		id := string(found[1])
		if seen[id] {
			continue
		}
		seen[id] = true
		got, err := service.Collect(ctx, agents.Collection{Task: task, Agent: id, By: by})
		if err != nil {
			continue
		}
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, KeyPlaceholder, id), []byte(got.Key))
		result = bytes.ReplaceAll(result, fmt.Appendf(nil, SecretPlaceholder, id), []byte(got.Secret))
	}
	return result
}
