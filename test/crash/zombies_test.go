package crash_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/test/crash"
	"github.com/orch-dev/orch/tools"
)

const (
	// toilLimit is the time limit of a write with a verify tool.
	toilLimit = 3 * time.Second
	// endlessOneIn is how often the first attempt would go on for ever; then only its end by force is an end.
	endlessOneIn = 4
	// aliveEvery is how often such a write writes that it is alive.
	aliveEvery = 50 * time.Millisecond
	// envZombies is the number of rounds with stopped workers; a tenth of the others by default.
	envZombies = "ORCH_CRASH_ZOMBIES"
)

// TestCrashZombies stops workers while child processes write for them. Verify tools decide from the ledger what to do.
// No two attempts of a write may be concurrent, and no write may happen twice or be lost.
func TestCrashZombies(t *testing.T) {
	t.Parallel()
	seed := fromEnv(t, envSeed, uint64(time.Now().UnixNano()))
	rounds := fromEnv(t, envZombies, max(1, fromEnv(t, envRounds, defaultRounds)/10))
	clusters := min(rounds, fromEnv(t, envClusters, 1))
	for i := range clusters {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			crashRounds(t, options{zombies: true}, seed+i, int((rounds+clusters-1)/clusters))
		})
	}
}

// jobs are the kinds of tasks of a cluster.
func (o options) jobs() []job {
	if !o.zombies {
		return jobs()
	}
	const step = "    tool: CRASH_VERIFIED\n    timeout: 3s\n    verify: {tool: LEDGER_LOOK, with: {step: ID}, expect: output.happened}\n"
	return []job{
		{name: "verified", plan: "orch: v1\nname: verified\nsteps:\n  - id: a\n" + strings.ReplaceAll(step, "ID", "a")},
		{name: "chain", plan: "orch: v1\nname: chain\nsteps:\n  - id: a\n" + strings.ReplaceAll(step, "ID", "a") + "  - id: b\n    needs: [a]\n" + strings.ReplaceAll(step, "ID", "b")},
	}
}

type lookIn struct {
	Step string `json:"step" jsonschema:"the step"`
}

type lookOut struct {
	Happened bool `json:"happened"`
}

// lookUp returns the verify tool: it checks in the ledger whether a write of the task has happened.
func lookUp(dir string) tools.Tool {
	spec := tools.Spec{
		Name: crash.ToolLook, Purpose: "Look into the ledger", Effect: tools.Read, Gate: tools.AnyState,
		Approval: tools.NoApproval, NoWorkspace: true,
	}
	return tools.Define(spec, func(_ context.Context, env *tools.Env, in lookIn) (lookOut, error) {
		effects, err := crash.ReadLedger(ledgerPath(dir))
		return lookOut{slices.ContainsFunc(effects, func(e crash.Effect) bool {
			return e.Phase == crash.End && e.Task == env.Task && e.Step == in.Step
		})}, err
	})
}

// toil writes at its end, and shows until then that it is alive.
func toil(ctx context.Context, dir string, e crash.Effect) (err error) {
	ledger, err := crash.OpenLedger(ledgerPath(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	left := 200*time.Millisecond + rand.N(lease*3/2)
	if e.Attempt == 1 && rand.IntN(endlessOneIn) == 0 {
		left = time.Hour
	}
	for e.Phase = crash.Begin; left > 0; left -= aliveEvery {
		e.At = time.Now()
		if err := ledger.Append(e); err != nil {
			return err
		}
		if pause.For(ctx, aliveEvery) != nil {
			return ctx.Err()
		}
		e.Phase = crash.Alive
	}
	e.Phase, e.At = crash.End, time.Now()
	return ledger.Append(e)
}
