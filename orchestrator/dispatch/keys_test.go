package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/work"
)

// plainLimits is a slow dispatcher of one family that looks at all calls each time.
type plainLimits struct {
	limits []dispatch.Limit
	queued []plainCall
	starts []plainStart
}

type plainCall struct {
	step, tool, key string
	urgent          bool
}

type plainStart struct {
	plainCall

	at      time.Time
	running bool
}

// allows reports whether all limits let a call start.
func (m *plainLimits) allows(c plainCall, now time.Time) bool {
	return !slices.ContainsFunc(m.limits, func(l dispatch.Limit) bool {
		if l.Tool != c.tool || l.Key != "" && l.Key != c.key {
			return false
		}
		started, running := 0, 0
		for _, s := range m.starts {
			if s.tool != c.tool || (l.By == dispatch.ByKey || l.Key != "") && s.key != c.key {
				continue
			}
			if s.at.After(now.Add(-l.Window)) {
				started++
			}
			if s.running {
				running++
			}
		}
		return l.Starts > 0 && started >= l.Starts || l.Running > 0 && running >= l.Running
	})
}

// take starts the first call that may start, the most urgent and oldest one.
func (m *plainLimits) take(now time.Time) []string {
	best := -1
	for i, c := range m.queued {
		if m.allows(c, now) && (best < 0 || c.urgent && !m.queued[best].urgent) {
			best = i
		}
	}
	if best < 0 {
		return []string{}
	}
	c := m.queued[best]
	m.queued = slices.Delete(m.queued, best, best+1)
	m.starts = append(m.starts, plainStart{c, now, true})
	return []string{c.step}
}

// end ends a running call, and returns its step; "" for none.
func (m *plainLimits) end(r *rand.Rand) string {
	for _, i := range r.Perm(len(m.starts)) {
		if m.starts[i].running {
			m.starts[i].running = false
			return m.starts[i].step
		}
	}
	return ""
}

// remove removes a queued call, and returns its step; "" for none.
func (m *plainLimits) remove(r *rand.Rand) string {
	if len(m.queued) == 0 {
		return ""
	}
	i := r.IntN(len(m.queued))
	step := m.queued[i].step
	m.queued = slices.Delete(m.queued, i, i+1)
	return step
}

// With any limits of keys, a worker gets the call that it would get if all calls were looked at.
func TestKeysAgainstPlainLimits(t *testing.T) {
	t.Parallel()
	const tool, steps = "X", 400
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		limits := []dispatch.Limit{{Tool: tool, Running: 1 + r.IntN(2), Starts: 1 + r.IntN(3), Window: time.Minute, By: dispatch.ByKey}}
		if r.IntN(2) == 0 {
			limits = append(limits, dispatch.Limit{Tool: tool, Running: 1 + r.IntN(5), Starts: 2 + r.IntN(8), Window: 90 * time.Second})
		}
		if r.IntN(2) == 0 {
			limits = append(limits, dispatch.Limit{Tool: tool, Key: "k1", Starts: 1, Window: 5 * time.Minute})
		}
		m, y := &plainLimits{limits: limits}, newYard(limits...)
		for i := range steps {
			switch r.IntN(7) {
			case 0, 1:
				c := plainCall{fmt.Sprint("s", i), tool, []string{"", "k1", "k2", "k3", "k4"}[r.IntN(5)], r.IntN(4) == 0}
				m.queued = append(m.queued, c)
				y.ready(c.step, map[bool]string{true: "high", false: "normal"}[c.urgent], y.WithKey(dispatch.Lane{Tool: tool}, c.key))
			case 2, 3:
				require.Equal(t, m.take(y.now), y.poll(work.Poll{Worker: "w", Free: 1}), "seed %d, step %d", seed, i)
			case 4:
				if step := m.end(r); step != "" {
					y.EndLease(y.calls("T"), step)
				}
			case 5:
				y.now = y.now.Add(time.Duration(r.IntN(40)) * time.Second)
				y.Wake()
			case 6:
				y.Remove(y.calls("T"), m.remove(r))
			}
		}
		y.endAll(t)
	}
}

// A worker that waits gets a call of a key whose time has come, whatever other keys wait for.
func TestKeysWake(t *testing.T) {
	t.Parallel()
	y := newYard(dispatch.Limit{Tool: "X", Starts: 1, Window: time.Minute, By: dispatch.ByKey})
	for i, key := range []string{"a", "b", "a", "b"} {
		y.ready(fmt.Sprint(key, i), "normal", y.WithKey(dispatch.Lane{Tool: "X"}, key))
	}
	assert.Equal(t, []string{"a0"}, y.poll(work.Poll{Worker: "w", Free: 1}))
	y.now = noon().Add(20 * time.Second)
	assert.Equal(t, []string{"b1"}, y.poll(work.Poll{Worker: "w", Free: 2}))
	_, parked := y.Poll(work.Poll{Worker: "w", Free: 2, Wait: time.Hour})
	require.NotNil(t, parked)
	assert.Equal(t, noon().Add(time.Minute), y.wakes[len(y.wakes)-1])
	y.now = noon().Add(time.Minute)
	y.Wake()
	assert.Equal(t, []string{"a2"}, stepsOf(<-parked.Out))
	assert.Equal(t, noon().Add(80*time.Second), y.wakes[len(y.wakes)-1])
	y.now = noon() // the clock is set back: nothing waits for longer than the window
	y.now = noon().Add(-time.Hour)
	assert.Empty(t, y.poll(work.Poll{Worker: "w", Free: 2}))
	y.now = y.now.Add(time.Minute)
	assert.Equal(t, []string{"b3"}, y.poll(work.Poll{Worker: "w", Free: 2}))
}

func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{10, 1_000, 10_000} {
		b.Run(strconv.Itoa(keys), func(b *testing.B) {
			y := newYard(dispatch.Limit{Tool: "X", Running: 1, By: dispatch.ByKey})
			for k := range keys {
				for i := range 2 {
					y.ready(fmt.Sprint(k, "-", i), "normal", y.WithKey(dispatch.Lane{Tool: "X"}, strconv.Itoa(k)))
				}
			}
			require.Len(b, y.poll(work.Poll{Worker: "w", Free: keys}), keys)
			for i := 0; b.Loop(); i++ {
				y.ready(fmt.Sprint("n", i), "normal", y.WithKey(dispatch.Lane{Tool: "X"}, "other"))
				got := y.poll(work.Poll{Worker: "w", Free: 1})
				require.Len(b, got, 1)
				y.EndLease(y.calls("T"), got[0])
			}
		})
	}
}
