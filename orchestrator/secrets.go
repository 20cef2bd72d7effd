package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// checkSecrets refuses a plan whose secrets lie where the operator does not allow it, or that somebody submits who may have none used. A
// sub-plan was checked with the plan around it.
func (o *Orchestrator) checkSecrets(p *plan.Plan, r api.SubmitRequest, extra submitExtra) error {
	sources := p.SecretSources()
	if len(sources) == 0 {
		return nil
	}
	byAgent := r.NoSecrets || isAgent(r.Actor) || r.KeysOf != "" || r.Session != "" || r.Client != nil && extra.parent == nil
	if byAgent || extra.parent != nil && extra.parent.Agent != "" || extra.delegated() {
		return api.ErrAgentSecrets()
	}
	i := slices.IndexFunc(sources, func(source string) bool { return !secret.Allowed(o.cfg.Secrets, source) })
	if i >= 0 {
		return secret.NotAllowed(sources[i]).WithField("plan.secrets")
	}
	return nil
}

// secretsOf are the secrets of the call of a step. The question whether a call in doubt has happened has none.
func (t *reading) secretsOf(s *statemachine.Step) []work.Secret {
	n := t.nodeByKey(s.Key)
	if n == nil || s.Purpose != "" {
		return nil
	}
	var all []work.Secret
	for _, use := range n.Secrets {
		all = append(all, work.Secret{Field: use.Field, Key: use.Key, Name: use.Name, Source: use.Source, Prefix: use.Prefix, Text: use.Text()})
	}
	return all
}
