package orchestrator

import (
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// Costs implements api.Tasks.
func (rd *reader) Costs(_ context.Context, r api.CostsRequest) (api.CostsReply, error) {
	if err := checkCosts(r); err != nil {
		return api.CostsReply{}, err
	}
	if err := rd.serving(); err != nil {
		return api.CostsReply{}, err
	}
	reply := api.NoCosts()
	if rd.cfg.Costs == nil {
		return reply, nil
	}
	reply.Behind = !closed(rd.cfg.Costs.Ready())
	reply.Rows = rd.cfg.Costs.Costs(costs.Query{By: r.GroupBy, Since: r.Since, Until: r.Until, Identity: r.Identity})
	for _, row := range reply.Rows {
		reply.Total.Add(row.Sum)
	}
	rd.lock()
	defer rd.unlock()
	for i, b := range rd.cfg.Budgets {
		reply.Budgets = append(reply.Budgets, rd.engine.ledgers.views(i, b, r.Identity)...)
	}
	return reply, nil
}

// checkCosts validates a request.
func checkCosts(r api.CostsRequest) error {
	kinds := []string{costs.ByDay, costs.ByModel, costs.ByAgent, costs.ByIdentity, costs.ByTask}
	label, labelled := strings.CutPrefix(r.GroupBy, costs.LabelPrefix)
	if r.GroupBy != "" && !slices.Contains(kinds, r.GroupBy) && (!labelled || label == "") {
		return fault.New(fault.ValidationError, "costs are not itemized by %q", decide.Clip(r.GroupBy)).WithField("by").
			WithHint("by %s, or %sKEY", strings.Join(kinds, ", "), costs.LabelPrefix)
	}
	if !r.Until.IsZero() && r.Until.Before(r.Since) {
		return fault.New(fault.ValidationError, "ends before it begins").WithField("until")
	}
	return nil
}

// views returns the state of a budget. With an identity it returns only what that identity has for itself. mu must be held.
func (ls *ledgers) views(i int, b costs.Budget, identity string) []api.BudgetView {
	now := ls.now()
	view := func(who string) api.BudgetView {
		return api.BudgetView{
			Name: b.Name(who), Identity: who, Limit: b.Limit(), Spent: ls.cfg.Costs.Spent(b, who, now),
			Held: ls.sums[heldAccount{i, b.Account(who)}], Until: b.Until(now),
		}
	}
	switch {
	case b.By == "" && identity == "":
		return []api.BudgetView{view("")}
	case b.By == "":
		return nil
	case identity != "":
		return []api.BudgetView{view(identity)}
	}
	var all []api.BudgetView
	for _, who := range ls.spenders(i, b) {
		all = append(all, view(who))
	}
	return all
}

// spenders returns the identities that have spent something of a budget, or have turns without an answer.
func (ls *ledgers) spenders(i int, b costs.Budget) []string {
	all := ls.cfg.Costs.Spenders(b, ls.now())
	for a, held := range ls.sums {
		if who, ok := strings.CutPrefix(a.name, b.Account("")); ok && a.budget == i && held != (events.Spent{}) {
			all = append(all, who)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
