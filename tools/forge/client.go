package forge

import (
	"context"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

const (
	publicURL = "https://api.github.com"
	// callTime is the time limit of a call with all its requests.
	callTime = 30 * time.Second
)

// api is the client that the tools share.
type api struct {
	rest rest
	// endpoint is the server of the API in the form of tools.Endpoint; empty when the configuration is unusable.
	endpoint string
	token    string
}

// newAPI returns a client for the configuration. An unusable configuration leaves endpoint empty.
func newAPI(cfg Config) *api {
	a := &api{token: cfg.Token}
	if cfg.URL == "" {
		cfg.URL = publicURL
	}
	net := netguard.New(cfg.Net.Reaching(cfg.URL))
	base, err := net.Parse(cfg.URL)
	if err != nil {
		return a
	}
	base = base.JoinPath("/")
	base.RawQuery = ""
	a.rest = rest{net: net, base: base, token: cfg.Token, until: map[string]time.Time{}}
	a.endpoint = netguard.Endpoint(base)
	return a
}

// checkConfig returns TOOL_UNAVAILABLE without a usable configuration.
func (a *api) checkConfig() error {
	if a.endpoint == "" {
		return fault.New(fault.ToolUnavailable, "github_url is not an http or https URL").
			WithHint("set it to the base of the API, such as https://github.example.com/api/v3")
	}
	return nil
}

// requireToken is for calls that GitHub permits only with a token. It returns FORBIDDEN if no token is configured, and
// otherwise the result of checkConfig.
func (a *api) requireToken() error {
	if a.token == "" {
		return fault.New(fault.Forbidden, "GitHub requires a token, and none is configured").WithReason("ACCESS_DENIED").
			WithHint("the operator sets github_token")
	}
	return a.checkConfig()
}

// intent returns the Intent of a call that writes to the server of the API (S3-068).
func (a *api) intent(reason string) (tools.Intent, error) {
	if err := a.requireToken(); err != nil {
		return tools.Intent{}, err
	}
	return tools.Intent{Effect: tools.Write, Reason: reason, Targets: []tools.Target{{Kind: tools.Endpoint, Name: a.endpoint}}}, nil
}

// withCallTimeout sets the time limit of a call.
func withCallTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTime)
}
