package node

import (
	"context"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
)

// restWork implements rest.WorkService.
type restWork struct{ desk *agentDesk }

var _ rest.WorkService = restWork{}

// Work implements rest.WorkService.
func (w restWork) Work(ctx context.Context, r rest.WorkRequest) (agents.Exchanged, error) {
	t, err := w.desk.credentials.tokens.Token(strings.TrimPrefix(r.Actor, agents.Prefix))
	if err != nil {
		return agents.Exchanged{}, err
	}
	if t.Agent == nil {
		return agents.Exchanged{}, fault.New(fault.Forbidden, "%s is not a registered agent", t.Name).WithHint("orch agents register")
	}
	return w.desk.agentDispatcher.Exchange(ctx, memberOf(t), r.Exchange)
}
