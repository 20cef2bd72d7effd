package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/tools"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type echoIn struct {
	Text string `json:"text,omitempty" jsonschema:"what to say"`
	N    int    `json:"n,omitempty" jsonschema:"a number"`
}

// catalogue contains tools of every effect. The simulated workers never call them.
func catalogue(t *testing.T) *tools.Catalogue {
	t.Helper()
	tool := func(name string, effect tools.Effect, gate tools.Gate) tools.Tool {
		return tools.Define(tools.Spec{Name: name, Purpose: "test", Effect: effect, Gate: gate, Approval: tools.NoApproval},
			func(_ context.Context, _ *tools.Env, in echoIn) (echoIn, error) { return in, nil })
	}
	cat, err := tools.New(
		tool("READ", tools.Read, tools.AnyState), tool("PROBE", tools.Read, tools.AnyState), tool("SPAWN", tools.Idempotent, tools.AnyState), tool("IDEM", tools.Idempotent, tools.InProgress),
		tool("WRITE", tools.Write, tools.InProgress), tool("ANY", tools.Write, tools.AnyState), tool("DESTROY", tools.Destructive, tools.InProgress),
		tool(models.CallTool, tools.Idempotent, tools.InProgress))
	require.NoError(t, err)
	return cat
}

// result is the result of a run.
type result struct {
	digest

	wrong []string
	tape  string
}

// run plays a script in a bubble of its own.
func run(t *testing.T, s script, cat *tools.Catalogue, c cheat, taped bool) (r result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		var tape *bytes.Buffer
		if taped {
			tape = &bytes.Buffer{}
		}
		w := newWorld(s, cat, tape, c)
		w.play()
		if len(w.wrong) == 0 {
			w.settle()
		}
		if len(w.wrong) == 0 {
			w.check()
		}
		r.digest = w.digest()
		w.close()
		r.wrong = w.wrong
		if taped {
			r.tape = tape.String()
		}
	})
	return r
}

// close ends everything that still runs.
func (w *world) close() {
	for _, o := range []*owner{w.old, w.owner} {
		w.kill(o)
	}
	for _, c := range w.calls {
		c.cancel()
	}
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// TestSeeds runs ORCH_SIM_SEEDS seeds from ORCH_SIM_FROM on.
func TestSeeds(t *testing.T) {
	t.Parallel()
	seeds, from := number(t, "ORCH_SIM_SEEDS", usualSeeds), number(t, "ORCH_SIM_FROM", 1)
	var next, done, commits, tasks atomic.Int64
	began := time.Now()
	t.Run("shards", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(shard), func(t *testing.T) {
				t.Parallel()
				cat := catalogue(t)
				for n := next.Add(1) - 1; n < int64(seeds) && !t.Failed(); n = next.Add(1) - 1 {
					r := runSeed(t, from+int(n), cat)
					done.Add(1)
					commits.Add(int64(r.commits))
					tasks.Add(int64(r.tasks))
				}
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d seeds from %d: %d tasks, %d commits, %.0f seeds/s", done.Load(), from, tasks.Load(), commits.Load(), float64(done.Load())/took.Seconds())
}

// runSeed runs one seed; if it fails, it prints the shortest script that fails in the same way.
func runSeed(t *testing.T, seed int, cat *tools.Catalogue) result {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			panic(fmt.Sprintf("ORCH_SIM_SEED=%d: %v", seed, p))
		}
	}()
	s := scripts().Example(seed)
	r := run(t, s, cat, honest, false)
	if len(r.wrong) > 0 {
		small := shrink(t, s, cat)
		again := run(t, small, cat, honest, true)
		t.Errorf("ORCH_SIM_SEED=%d: %s\nwith %d of %d acts:\n%s", seed, again.wrong, len(small.Acts), len(s.Acts), story(small, again))
	}
	return r
}

// shrink removes acts while the script still fails, for a limited time.
func shrink(t *testing.T, s script, cat *tools.Catalogue) script {
	t.Helper()
	const patience = 20 * time.Second
	began := time.Now()
	for size := len(s.Acts) / 2; size > 0; size /= 2 {
		for at := 0; at < len(s.Acts) && time.Since(began) < patience; {
			less := s
			less.Acts = append(append([]act{}, s.Acts[:at]...), s.Acts[min(at+size, len(s.Acts)):]...)
			if r := run(t, less, cat, honest, false); len(r.wrong) > 0 {
				s = less
			} else {
				at += size
			}
		}
	}
	return s
}

func story(s script, r result) string {
	return strings.Join(append(slices.Clone(s.Plans), r.tape), "\n")
}

// TestSeed repeats the seed ORCH_SIM_SEED, or the first one, and prints what happens.
func TestSeed(t *testing.T) {
	t.Parallel()
	s := scripts().Example(number(t, "ORCH_SIM_SEED", 1))
	r := run(t, s, catalogue(t), honest, true)
	t.Log(story(s, r))
	require.Empty(t, r.wrong)
}

// TestSameSeedSameBytes runs seeds twice: the tape of all that happened and the log are the same.
func TestSameSeedSameBytes(t *testing.T) {
	t.Parallel()
	cat := catalogue(t)
	for n := range number(t, "ORCH_SIM_TWICE", usualSeeds/10) {
		s := scripts().Example(n)
		first, second := run(t, s, cat, honest, true), run(t, scripts().Example(n), cat, honest, true)
		require.Equal(t, first.tape, second.tape, "seed %d", n)
		require.Equal(t, first.digest, second.digest, "seed %d", n)
	}
}

// TestTeeth: each planted fault is found by a few seeds.
func TestTeeth(t *testing.T) {
	t.Parallel()
	for _, c := range []cheat{lyingLog, unfencedLog, boldWorker, staleResult, forgetfulWorker} {
		t.Run(string(c), func(t *testing.T) {
			t.Parallel()
			cat := catalogue(t)
			for seed := range 600 {
				if r := run(t, scripts().Example(seed), cat, c, false); len(r.wrong) > 0 {
					t.Logf("seed %d: %s", seed, r.wrong[0])
					return
				}
			}
			t.Error("nobody has noticed")
		})
	}
}
