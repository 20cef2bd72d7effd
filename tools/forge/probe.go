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
	var limits struct {
		Resources struct {
			Core struct {
				Limit     int   `json:"limit"`
				Remaining int   `json:"remaining"`
				Reset     int64 `json:"reset"`
			} `json:"core"`
		} `json:"resources"`
	}
	if err := p.api.rest.get(ctx, "rate_limit", nil, acceptJSON, &limits); err != nil {
		return Rate{}, p.api.apiError(err, time.Now())
	}
	core := limits.Resources.Core
	if core.Reset == 0 {
		return Rate{}, nil // a server without limits
	}
	return Rate{core.Limit, core.Remaining, time.Unix(core.Reset, 0).UTC()}, nil
}
