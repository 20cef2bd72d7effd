package api

import (
	"time"

	"github.com/orch-dev/orch/costs"
	"github.com/orch-dev/orch/events"
)

// CostsRequest asks what requests to models cost; zero fields do not filter.
type CostsRequest struct {
	// GroupBy is what the rows are about: day (default), model, agent, identity, task, or label:KEY.
	GroupBy string `json:"by,omitempty"`
	// Since and Until are times of the first and the last day. Days begin at midnight UTC.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Identity selects the tasks of one identity, such as "user:ada", with their child tasks.
	Identity string `json:"identity,omitempty"`
}

// CostsReply says what requests to models cost.
type CostsReply struct {
	// Rows are the days in order, or others from the most expensive.
	Rows  []costs.Row `json:"rows"`
	Total costs.Sum   `json:"total"`
	// Budgets are the budgets of the node; with an identity, those of that identity.
	Budgets []BudgetView `json:"budgets,omitempty"`
	// Behind is set while the node still counts what was in its log when it started.
	Behind bool `json:"behind,omitempty"`
}

// NoCosts returns a reply without costs.
func NoCosts() CostsReply { return CostsReply{Rows: []costs.Row{}} }

// BudgetView is the state of a budget of the node in its current period.
type BudgetView struct {
	Name string `json:"name"`
	// Identity is whose budget it is; empty if it is one of all.
	Identity string       `json:"identity,omitempty"`
	Limit    events.Spent `json:"limit"`
	// Spent includes the most that answers can have cost that were lost. Held is what turns without an answer may cost besides.
	Spent events.Spent `json:"spent"`
	Held  events.Spent `json:"held,omitzero"`
	// Until is when the next period begins.
	Until time.Time `json:"until"`
}
