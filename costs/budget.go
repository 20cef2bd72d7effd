package costs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
)

// The periods of a budget. They begin at midnight UTC.
const (
	PerDay   = "day"
	PerMonth = "month"
)

// ByIdentity is the value of Budget.By for a budget that each identity has for itself.
const ByIdentity = "identity"

// Budget limits what requests to models may cost on a node in a period.
type Budget struct {
	// NanoUSD limits the cost in billionths of a US dollar, Tokens the tokens; 0 is no limit.
	NanoUSD, Tokens int64
	// Per is PerDay or PerMonth.
	Per string
	// By is ByIdentity, or "" for one budget of all.
	By string
	// Labels are labels that a task must have to be counted.
	Labels map[string]string
	// Model is the name of the model that is counted, or a beginning and *; "" is all models.
	Model string
}

// Limit returns the limits of the budget.
func (b Budget) Limit() events.Spent { return events.Spent{NanoUSD: b.NanoUSD, Tokens: b.Tokens} }

// Counts reports whether the budget counts requests to one of these models for a task with this origin.
func (b Budget) Counts(o Origin, models []string) bool {
	return b.CountsFor(o) && b.CountsModel(models)
}

// CountsFor reports whether the budget counts tasks with this origin.
func (b Budget) CountsFor(o Origin) bool {
	for key, value := range b.Labels {
		if o.Labels[key] != value {
			return false
		}
	}
	return true
}

// CountsModel reports whether the budget counts requests to one of these models.
func (b Budget) CountsModel(models []string) bool {
	beginning, pattern := strings.CutSuffix(b.Model, "*")
	return b.Model == "" || slices.ContainsFunc(models, func(model string) bool {
		return model == b.Model || pattern && strings.HasPrefix(model, beginning)
	})
}

// Until returns when the period of a time ends.
func (b Budget) Until(at time.Time) time.Time {
	y, m, d := at.UTC().Date()
	if b.Per == PerMonth {
		return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(y, m, d+1, 0, 0, 0, 0, time.UTC)
}

// period returns the name of the period of a time: 2026-11 or 2026-11-27.
func (b Budget) period(at time.Time) string {
	if b.Per == PerMonth {
		return at.UTC().Format("2006-01")
	}
	return at.UTC().Format(time.DateOnly)
}

// previous returns the name of the period before that of a time.
func (b Budget) previous(at time.Time) string {
	if b.Per == PerMonth {
		return b.period(at.UTC().AddDate(0, 0, -at.UTC().Day()))
	}
	return b.period(at.UTC().AddDate(0, 0, -1))
}

// Account returns the name of what the budget counts for an identity: it differs from that of a budget that counts anything else. The
// limits are no part of it, so that a change of them keeps what was spent.
func (b Budget) Account(identity string) string {
	who := ""
	if b.By == ByIdentity {
		who = identity
	}
	return b.counted() + separator + who
}

// separator is in front of the identity in the name of an account. It is in none of the other parts, which are quoted.
const separator = "\n"

// counted is Account without the identity.
func (b Budget) counted() string {
	parts := []string{b.Per, b.By, strconv.Quote(b.Model)}
	for _, key := range slices.Sorted(maps.Keys(b.Labels)) {
		parts = append(parts, strconv.Quote(key)+"="+strconv.Quote(b.Labels[key]))
	}
	return strings.Join(parts, " ")
}

// Name describes the budget as it applies to an identity, such as "$5.00 a day of user:ada".
func (b Budget) Name(identity string) string {
	var limits []string
	if b.NanoUSD > 0 {
		limits = append(limits, "$"+events.Dollars(b.NanoUSD))
	}
	if b.Tokens > 0 {
		limits = append(limits, fmt.Sprintf("%d tokens", b.Tokens))
	}
	parts := []string{strings.Join(limits, " and "), "a", b.Per}
	if b.By == ByIdentity {
		parts = append(parts, "of", identity)
	}
	for _, key := range slices.Sorted(maps.Keys(b.Labels)) {
		parts = append(parts, "with label", key+"="+b.Labels[key])
	}
	if b.Model != "" {
		parts = append(parts, "for", b.Model)
	}
	return strings.Join(parts, " ")
}
