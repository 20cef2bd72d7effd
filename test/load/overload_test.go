package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/need"
)

const (
	// envDurability is the durability of a node.
	envDurability = "LOAD_DURABILITY"
	// roleBurn is a process that uses the processors and does nothing else.
	roleBurn = "burn"
	// burners is the load of the machine.
	burners = 30
	// lowest is the lowest priority of a process.
	lowest = 19

	// submitFor is how long clients begin submissions. The load goes on until the last one is answered, but not longer than burnFor,
	// which leaves a node that got no processor at all time to answer before the clients give up (rpc.CallWithin).
	submitFor, burnFor = 20 * time.Second, 30 * time.Second
)

// burn keeps as many threads busy as burners says, until ctx ends.
func burn(ctx context.Context) error {
	runtime.GOMAXPROCS(burners + 1)
	for range burners {
		go func() {
			for ctx.Err() == nil {
			}
		}()
	}
	err := printLine("ready")
	<-ctx.Done()
	return err
}

// waitingPlan is a task that stays open.
const waitingPlan = "orch: v1\nname: wait\nsteps:\n  - {id: w, wait: {signal: go}}\n"

// overload is a node on an overloaded machine.
type overload struct {
	t    *testing.T
	dir  string
	ends time.Time
	// refusals counts the requests that the node has refused and the client has repeated.
	refusals atomic.Int64

	mu sync.Mutex // guards the fields below
	// answers counts by the kind of client and the error, slowest is the longest time of each.
	answers map[string]int
	slowest map[string]time.Duration
	// stored maps the names of tasks to what their answer says: whether they are in the log.
	stored map[string]bool
}

// An overloaded node answers each submission or refuses it. A task is in the log exactly if its answer says so.
func TestOverload(t *testing.T) { //nolint:paralleltest // it measures
	need.Long(t)
	for _, c := range []struct { //nolint:paralleltest // it measures
		durability string
		behind     bool
		full       bool
	}{
		{durability: "fsync"}, {durability: "relaxed", behind: true}, {durability: "relaxed", full: true}, {durability: "fsync", behind: true, full: true},
	} {
		t.Run(fmt.Sprintf("%s, behind others %t", c.durability, c.behind), func(t *testing.T) {
			if c.full && os.Getenv(envFull) == "" {
				t.Skip(envFull + " is not set")
			}
			o := &overload{t: t, dir: t.TempDir(), answers: map[string]int{}, slowest: map[string]time.Duration{}, stored: map[string]bool{}}
			node := spawn(t, roleFace, o.dir, envDurability+"="+c.durability)
			if c.behind {
				require.NoError(t, syscall.Setpriority(syscall.PRIO_PGRP, node.cmd.Process.Pid, lowest))
			}
			o.run(node)
			o.report()
			o.checkStored()
		})
	}
}

// run submits tasks to a node while the machine is overloaded.
func (o *overload) run(node *process) {
	var owners []api.API
	for range 8 {
		owners = append(owners, dial(o.t, o.dir))
	}
	mcp := open(o.t, node.ready)
	others := spawn(o.t, roleBurn, o.dir)
	defer time.AfterFunc(burnFor, others.kill).Stop()
	o.ends = time.Now().Add(submitFor)
	var clients sync.WaitGroup
	for i, owner := range owners {
		clients.Go(func() { o.submitBatches(owner, fmt.Sprint("batch", i)) })
		for n := range 4 {
			clients.Go(func() { o.submitSingly(owner, fmt.Sprint("single", i, "-", n)) })
		}
	}
	for i := range 4 {
		clients.Go(func() { o.submitOverHTTP(mcp, fmt.Sprint("http", i)) })
	}
	clients.Wait()
	others.kill()
}

// ctx returns a context for requests that counts refusals.
func (o *overload) ctx() context.Context {
	return rpc.OnRefusal(o.t.Context(), func(*fault.Error) { o.refusals.Add(1) })
}

func (o *overload) submitBatches(owner api.API, prefix string) {
	for i := 0; time.Now().Before(o.ends); i++ {
		var r api.SubmitBatchRequest
		for n := range 1000 {
			r.Tasks = append(r.Tasks, api.SubmitRequest{Plan: text(waitingPlan), Name: fmt.Sprint(prefix, "-", i, "-", n)})
		}
		began := time.Now()
		reply, err := owner.SubmitBatch(o.ctx(), r)
		for n, task := range r.Tasks {
			each := fault.From(err)
			if err == nil {
				each = reply.Tasks[n].Error
			}
			o.add("batch", task.Name, each, time.Since(began))
		}
	}
}

func (o *overload) submitSingly(owner api.API, prefix string) {
	for i := 0; time.Now().Before(o.ends); i++ {
		r := api.SubmitRequest{Plan: text(waitingPlan), Name: fmt.Sprint(prefix, "-", i)}
		began := time.Now()
		_, err := owner.Submit(o.ctx(), r)
		o.add("single", r.Name, fault.From(err), time.Since(began))
	}
}

func (o *overload) submitOverHTTP(c *client, prefix string) {
	for i := 0; time.Now().Before(o.ends); i++ {
		name := fmt.Sprint(prefix, "-", i)
		began := time.Now()
		o.add("http", name, faultOf(c.call("orch_submit", fmt.Sprintf(`{"plan":%q,"name":%q}`, waitingPlan, name))), time.Since(began))
	}
}

// faultOf returns the error in an answer over HTTP, or nil.
func faultOf(answer string) *fault.Error {
	_, data, _ := strings.Cut(answer, "data: ")
	var m struct {
		Result struct {
			Meta struct {
				Error *struct {
					Name string                  `json:"name"`
					Data struct{ Reason string } `json:"data"`
				} `json:"orch/error"`
			} `json:"_meta"`
		} `json:"result"`
	}
	switch err := json.Unmarshal([]byte(data), &m); {
	case err == nil && m.Result.Meta.Error != nil:
		return fault.New(fault.Code(m.Result.Meta.Error.Name), "%s", answer).WithReason(m.Result.Meta.Error.Data.Reason)
	case err == nil && strings.Contains(answer, `"task_id":"TASK_`):
		return nil
	default:
		return fault.New(fault.ParseError, "%s", answer)
	}
}

// add records the answer for a task.
func (o *overload) add(kind, name string, err *fault.Error, took time.Duration) {
	what := kind + ": done"
	if err != nil {
		what = kind + ": " + strings.TrimSpace(string(err.Code)+" "+err.Reason)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answers[what]++
	o.slowest[what] = max(o.slowest[what], took)
	o.stored[name] = err == nil
}

// report logs the answers, and fails for an error other than OVERLOADED.
func (o *overload) report() {
	o.t.Logf("%d requests were refused and repeated", o.refusals.Load())
	for _, what := range slices.Sorted(maps.Keys(o.answers)) {
		o.t.Logf("%6d %s, slowest after %s", o.answers[what], what, o.slowest[what].Round(time.Millisecond))
		if !strings.HasSuffix(what, ": done") {
			assert.Contains(o.t, what, "UNAVAILABLE "+fault.Overloaded)
		}
	}
}

// checkStored compares the answers with the log.
func (o *overload) checkStored() {
	o.t.Helper()
	found := map[string]int{}
	owner := dial(o.t, o.dir)
	for r := (api.ListRequest{Limit: 1000}); ; {
		page, err := owner.List(o.ctx(), r)
		require.NoError(o.t, err)
		for _, task := range page.Tasks {
			found[task.Name]++
		}
		if r.Cursor = page.Next; r.Cursor == "" {
			break
		}
	}
	wrong := 0
	for name, stored := range o.stored {
		if n := found[name]; stored && n != 1 || !stored && n != 0 {
			wrong++
		}
	}
	assert.Zero(o.t, wrong, "answers that are not true, of %d", len(o.stored))
}
