package node

import (
	"log/slog"
	"strings"

	"github.com/orch-dev/orch/orchestrator/dispatch"
)

// callLimits returns the limits of calls.
func (c Config) callLimits() []dispatch.Limit {
	var all []dispatch.Limit
	for _, l := range c.CallLimits {
		all = append(all, dispatch.Limit(l))
	}
	return all
}

// warnOfLimits logs the limits of calls that match nothing, as far as that is known at the start: MCP servers bring their tools later,
// with a dot in their names.
func (n *Node) warnOfLimits() {
	isName := func(pattern string) bool { return pattern != "" && !strings.ContainsAny(pattern, `*?[\`) }
	for _, l := range n.cfg.callLimits() {
		if _, known := n.executor.catalogue.Get(l.Tool); isName(l.Tool) && !known && !strings.Contains(l.Tool, ".") {
			n.cfg.logger().Warn("call_limit_matches_nothing", slog.String("limit", l.String()), slog.String("tool", l.Tool),
				slog.String("did_you_mean", n.executor.catalogue.Suggest(l.Tool)))
		}
		if isName(l.Identity) && !strings.Contains(l.Identity, ":") {
			n.cfg.logger().Warn("call_limit_matches_nothing", slog.String("limit", l.String()), slog.String("identity", l.Identity),
				slog.String("did_you_mean", "user:"+l.Identity))
		}
	}
}
