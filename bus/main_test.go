package bus_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, level := range []bus.Durability{bus.Fsync, bus.Relaxed} {
		open := func(t *testing.T) *bustest.Node {
			t.Helper()
			return bustest.NewNode(t, bus.ServerConfig{Durability: level})
		}
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			eventstest.TestLog(t, func(t *testing.T) events.Log { t.Helper(); return open(t) })
			eventstest.TestBlobs(t, func(t *testing.T) events.Blobs { t.Helper(); return open(t) })
			eventstest.TestCheckpoints(t, func(t *testing.T) events.Checkpoints { t.Helper(); return open(t) })
		})
	}
}

type greeting struct {
	Name  string `json:"name"`
	Times int    `json:"times,omitempty"`
}

func echo[T any](_ context.Context, in T) (T, error) { return in, nil }
