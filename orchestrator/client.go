package orchestrator

import (
	"slices"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/orchestrator/decide"
)

// maxRoots limits the roots of a client.
const maxRoots = 32

func checkClient(c *events.Client) error {
	if c == nil {
		return nil
	}
	for _, kind := range c.Asks {
		if !slices.Contains([]string{events.Elicitation, events.Sampling, events.SamplingTools, events.Roots}, kind) {
			return fault.New(fault.ValidationError, "%q is not elicitation, sampling or roots", decide.Clip(kind)).WithField("client.asks")
		}
	}
	if len(c.Session) > maxText {
		return fault.New(fault.ValidationError, "has %d bytes, the limit is %d", len(c.Session), maxText).WithField("client.session")
	}
	if len(c.Roots) > maxRoots {
		return tooMany("client.roots", len(c.Roots), maxRoots)
	}
	for _, root := range c.Roots {
		if !strings.HasPrefix(root, "/") || len(root) > 4096 {
			return fault.New(fault.InvalidFormat, "%q is not an absolute path", decide.Clip(root)).WithField("client.roots")
		}
	}
	return nil
}
