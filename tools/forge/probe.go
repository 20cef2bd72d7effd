package forge

import (
	"context"
	"time"
)

// Probe checks whether GitHub answers, by a request for the rate limit. That request does not count against the limit.
type Probe struct {
	api        *api
	configured bool
}

// Rate is the rate limit of GitHub.
type Rate struct {
	Limit, Remaining int
	// Reset is when the limit is reset.
	Reset time.Time
}

// NewProbe returns a probe of the configured server.
func NewProbe(cfg Config) *Probe {
	return &Probe{newAPI(cfg), cfg.URL != "" || cfg.Token != ""}
}

// Configured reports whether GitHub is configured. If not, the node does not depend on GitHub.
func (p *Probe) Configured() bool { return p.configured }

// Ask makes one request. It returns the same errors as the tools.
func (p *Probe) Ask(ctx context.Context) (Rate, error) {
	if err := p.api.checkConfig(); err != nil {
		return Rate{}, err
	}
	limits, _, err := p.api.client.RateLimit.Get(ctx)
	if err != nil {
		return Rate{}, p.api.apiError(err, time.Now())
	}
	core := limits.GetCore()
	if core == nil {
		return Rate{}, nil
	}
	return Rate{core.Limit, core.Remaining, core.Reset.UTC()}, nil
}
