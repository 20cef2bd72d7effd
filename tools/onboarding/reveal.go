package onboarding

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
)

// Reveal puts the secret of a new credential into the result of a task that has registered an agent, for whoever asked
// for that, and the first time only. Any other result comes back as it is.
func Reveal(ctx context.Context, service agents.Service, task events.TaskID, by string, result json.RawMessage) json.RawMessage {
	if !bytes.Contains(result, []byte(Once)) {
		return result
	}
	got, err := service.Collect(ctx, agents.Collection{Task: task, By: by})
	if err != nil {
		return result
	}
	result = bytes.Replace(result, []byte(OnceKey), []byte(got.Key), 1)
	return bytes.Replace(result, []byte(Once), []byte(got.Secret), 1)
}
