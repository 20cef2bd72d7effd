package main

import (
	"context"
	"errors"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/tools/model"
)

// explainKey returns the error of a secret that cannot be read, with a hint.
func (t *modelTrial) explainKey(err *fault.Error) *fault.Error {
	switch {
	case err.Hint != "":
		return err
	case strings.HasPrefix(err.Message, "the variable "):
		return err.WithHint("set it here, and where the node starts, which has an environment of its own")
	default:
		return err.WithHint("write the credential into the file, with mode 600")
	}
}

// explain returns the error of a request with a hint for the step that has begun.
func (t *modelTrial) explain(ctx context.Context, err error) *fault.Error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.Timeout, "the model %s has not answered within %s", t.name, t.options.timeout).
			WithHint("--timeout 10m waits longer; a model that is being loaded may take minutes")
	case ctx.Err() != nil:
		return fault.New(fault.Cancelled, "interrupted")
	}
	e := model.Fault(t.name, err, t.now())
	if hint := t.hint(err); hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

// hint returns what to do about the error of a request.
func (t *modelTrial) hint(err error) string {
	if t.isScript() {
		return "the answers are in " + t.place + "; --prompt asks something else"
	}
	switch t.steps.current() {
	case stepRequest:
		return "check HTTPS_PROXY, and what the proxy allows"
	case stepResolve:
		return "check `url` of the provider " + t.place + " in the settings, the network and HTTPS_PROXY"
	case stepConnect:
		return "check that a server runs at " + addressOf(t.settings) + ", the network and HTTPS_PROXY"
	case stepTLS:
		return "for a server with a root certificate of its own, name its file in `ca` of the provider " + t.place +
			"; for one that speaks plain http, begin `url` with http://"
	}
	known, _ := errors.AsType[*models.Error](err)
	if known == nil {
		return ""
	}
	return t.hintOfKind(known)
}

// hintOfKind returns what to do about an error that the provider has sent.
func (t *modelTrial) hintOfKind(e *models.Error) string {
	switch {
	case e.Kind == models.Unauthorized && t.settings.Key == "" && len(t.settings.Headers) == 0:
		return "set `key` of the provider " + t.place + ": env:NAME or file:PATH"
	case e.Kind == models.Unauthorized && t.settings.Key == "":
		return "check the headers of the provider " + t.place
	case e.Kind == models.Unauthorized:
		return "check the key in " + string(t.settings.Key) + ", and that it is one for " + addressOf(t.settings)
	case e.Status == 404:
		return "check the name of the model, and `url` of the provider " + t.place + ": it ends before the path of each request, often with /v1"
	case e.Kind == models.RateLimited:
		return "wait, or raise the limits or the credit at the provider"
	case e.Kind == models.Overloaded:
		return "try again later; agents do so by themselves, and then ask the models in `fallback`"
	case e.Kind == models.TooLong:
		return "the context of the model is too small for agents"
	case e.Kind == models.Transport:
		return "check that " + addressOf(t.settings) + " speaks the wire " + t.settings.Wire + " and streams its answers"
	default:
		return "check the name of the model, and the wire, `headers` and `fields` of the provider " + t.place
	}
}
