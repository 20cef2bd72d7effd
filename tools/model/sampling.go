package model

import (
	"slices"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/sampling"
	"github.com/orch-dev/orch/tools"
)

const (
	// questionKey is the key of the question to the MCP client. A turn has a call of its own, which asks once.
	questionKey = "model"
	// maxExcerpt limits the bytes of the conversation in the question. Who asks the client reads all of it from the history.
	maxExcerpt = 1 << 10
)

// askClient asks the model of the MCP client that has started the task. Until the client has answered it returns the error
// [tools.Asking]; then the call is made again with the answer.
func askClient(env *tools.Env, name string, r models.Request) (models.Answer, error) {
	hint, err := sampling.ParseName(name)
	if err != nil {
		return models.Answer{}, err
	}
	r.Model = hint
	raw, answered := env.Answer(questionKey)
	switch {
	case !env.Can(events.Sampling):
		return models.Answer{}, fault.New(fault.NotFound, "the model %s is that of the MCP client that starts the agent, and no client that offers sampling has", name).
			WithField("agent.model").WithReason("NO_SAMPLING").WithHint("call TASK_SPAWN from such a client, or name a model of a provider: orch models list")
	case len(r.Tools) > 0 && !env.Can(events.SamplingTools):
		return models.Answer{}, fault.New(fault.ValidationError, "the MCP client does not accept tools in sampling (sampling.tools), and the agent has some").
			WithField("agent.tools").WithReason("NO_SAMPLING_TOOLS").WithHint("use a client that does, an agent without tools, or a model of a provider: orch models list")
	case !answered:
		return models.Answer{}, question(name, r, env)
	case hasAnswer(env):
		answer, err := sampling.Answer(r, raw)
		if err != nil {
			return models.Answer{}, Fault(name, err, env.Now())
		}
		return answer, nil
	default:
		return models.Answer{}, fault.New(fault.Forbidden, "the MCP client gives no answer for the model %s: it or its user has refused, its answer was not accepted or too long, or none came in time", name).
			WithHint("orch history %s shows the question; start the agent again, or name a model of a provider", env.Task)
	}
}

// hasAnswer reports whether the client has answered. The answer null means that it has declined, or has not answered in time.
func hasAnswer(env *tools.Env) bool {
	raw, answered := env.Answer(questionKey)
	return answered && len(raw) > 0 && string(raw) != "null"
}

// goesOn returns the position of the model to ask first, which is first until the client was asked. Then it is that of the client: the
// models before it were asked already. If the client has declined and another model has failed after it, it is first again.
func goesOn(env *tools.Env, names []string, first int) int {
	_, asked := env.Answer(questionKey)
	if at := slices.IndexFunc(names, sampling.Named); at >= 0 && asked && (first == 0 || hasAnswer(env)) {
		return at
	}
	return first
}

// question returns the question to the client. It has only an excerpt of the conversation, which is in the history already.
func question(name string, r models.Request, env *tools.Env) error {
	if _, err := sampling.Params(r); err != nil { // it would be too long later
		return Fault(name, err, env.Now())
	}
	params, err := sampling.Excerpt(r, maxExcerpt)
	if err != nil {
		return Fault(name, err, env.Now())
	}
	return &tools.Asking{Questions: []tools.Question{{Key: questionKey, Kind: events.Sampling, Params: params}}}
}
