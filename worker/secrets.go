package worker

import (
	"context"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/work"
)

// readSecrets reads the secrets of the call and puts them into its arguments. From here on, they are removed from everything
// that leaves the call.
func (x *executor) readSecrets(_ context.Context, a *attempt) error {
	if len(a.Secrets) == 0 {
		return nil
	}
	values := map[string]string{}
	for _, s := range a.Secrets {
		if _, known := values[s.Name]; known {
			continue
		}
		value, err := secret.Read(s.Source, x.cfg.Secrets)
		if err != nil {
			return fault.From(err).WithField("secrets." + s.Name)
		}
		values[s.Name] = value
	}
	args, err := a.withSecrets(values)
	if err != nil {
		return err
	}
	set := secret.NewSet(values)
	a.argsWithSecrets, a.env.Secrets = args, set
	a.secrets.Store(set)
	return nil
}

func errSecretNotTaken(s work.Secret) error {
	return fault.New(fault.ValidationError, "takes no secret here").WithField(s.Field + "." + s.Key).WithReason("SECRET_NOT_TAKEN")
}
