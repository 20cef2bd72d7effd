package forge

import (
	"context"
	"time"
)

// Probe asks GitHub how it is, by its rate limit: a request that uses up nothing.
type Probe struct {
	api        *api
	configured bool
}

// Rate is the rate limit of GitHub.
type Rate struct {
	Limit, Remaining int
	// Reset is when the limit is whole again.
	Reset time.Time
}

// NewProbe returns a probe of the server of a configuration.
func NewProbe(cfg Config) *Probe {
	return &Probe{newAPI(cfg), cfg.URL != "" || cfg.Token != ""}
}

// Configured reports whether somebody has set up GitHub: who has not does not mind when it cannot be reached.
func (p *Probe) Configured() bool { return p.configured }

// Ask makes one request. The errors are those of the tools.
func (p *Probe) Ask(ctx context.Context) (Rate, error) {
	if err := p.api.ready(); err != nil {
		return Rate{}, err
	}
	limits, _, err := p.api.client.RateLimit.Get(ctx)
	if err != nil {
		return Rate{}, p.api.failed(err, time.Now())
	}
	core := limits.GetCore()
	if core == nil {
		return Rate{}, nil
	}
	return Rate{core.Limit, core.Remaining, core.Reset.UTC()}, nil
}
