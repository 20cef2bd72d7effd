package orchestrator

import (
	"slices"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/internal/secret"
	"github.com/orch-dev/orch/orchestrator/decide"
	"github.com/orch-dev/orch/plan"
)

// checkSecrets refuses a plan whose secrets lie where the operator does not allow it, or that somebody submits who may have none used. A
// sub-plan was checked with the plan around it.
func (o *Orchestrator) checkSecrets(p *plan.Plan, r api.SubmitRequest, extra submitExtra) error {
	sources := p.SecretSources()
	if len(sources) == 0 {
		return nil
	}
	byAgent := r.NoSecrets || decide.IsAgent(r.Actor) || r.KeysOf != "" || r.Session != "" || r.Client != nil && extra.parent == nil
	if byAgent || extra.parent != nil && extra.parent.Agent != "" || extra.delegated() {
		return api.ErrAgentSecrets()
	}
	i := slices.IndexFunc(sources, func(source string) bool { return !secret.Allowed(o.cfg.Secrets, source) })
	if i >= 0 {
		return secret.NotAllowed(sources[i]).WithField("plan.secrets")
	}
	return nil
}
