package worker

import (
	"context"
	"encoding/json"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/work"
)

// unlock reads the secrets of the call. From here on everything that leaves the call is searched for them.
func (w *Worker) unlock(_ context.Context, a *attempt) error {
	if len(a.Secrets) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, s := range a.Secrets {
		if _, known := values[s.Name]; known {
			continue
		}
		value, err := secret.Read(s.Source, w.cfg.Secrets)
		if err != nil {
			return fault.From(err).WithField("secrets." + s.Name)
		}
		values[s.Name] = value
	}
	given, err := a.withSecrets(values)
	if err != nil {
		return err
	}
	set := secret.NewSet(values)
	a.given, a.env.Secrets = given, set
	a.secrets.Store(set)
	return nil
}

// withSecrets returns the arguments with the values of the secrets.
func (a *attempt) withSecrets(values map[string]string) (json.RawMessage, error) {
	var args map[string]json.RawMessage
	if err := json.Unmarshal(a.args, &args); err != nil {
		return nil, fault.Wrap(fault.InvalidFormat, err, "the arguments are no valid JSON")
	}
	for _, s := range a.Secrets {
		var entries map[string]string
		_, takes := a.spec.Secrets[s.Field]
		if err := json.Unmarshal(args[s.Field], &entries); err != nil || !takes || entries[s.Key] != s.Text {
			return nil, noPlace(s)
		}
		entries[s.Key] = s.Prefix + values[s.Name]
		raw, err := json.Marshal(entries)
		if err != nil {
			return nil, noPlace(s)
		}
		args[s.Field] = raw
	}
	return json.Marshal(args)
}

func noPlace(s work.Secret) error {
	return fault.New(fault.ValidationError, "takes no secret here").WithField(s.Field + "." + s.Key).WithReason("SECRET_NOT_TAKEN")
}

// arguments are what the tool is called with.
func (a *attempt) arguments() json.RawMessage {
	if a.given != nil {
		return a.given
	}
	return a.args
}

// redact takes the secrets of a call, nil for none, and all that look like one out of data.
func (w *Worker) redact(a *attempt, data []byte) ([]byte, bool) {
	if a == nil {
		return w.rules.Redact(data)
	}
	own, found := a.secrets.Load().Redact(data)
	clean, others := w.rules.Redact(own)
	return clean, found || others
}

// cleanerOf returns what cleans the texts of a call.
func (w *Worker) cleanerOf(a *attempt) func(string) string {
	return func(text string) string { return w.clean(a, text) }
}
