package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// desk is a node with one slot for calls, whose provider test answers nobody before it is opened.
type desk struct {
	cfg    node.Config
	asked  atomic.Int64
	opened chan struct{}
	open   func()
}

func newDesk(t *testing.T, concurrency int) *desk {
	t.Helper()
	d := &desk{opened: make(chan struct{})}
	d.open = sync.OnceFunc(func() { close(d.opened) })
	server := modelstest.NewServer(t, func(modelstest.Seen) modelstest.Reply {
		d.asked.Add(1)
		<-d.opened
		return modelstest.Reply{Answer: says("Done.")}
	})
	t.Cleanup(d.open) // before the server is closed, which waits
	d.cfg = asking(t, server, modelstest.OpenAI)
	p := d.cfg.Models.Providers["test"]
	p.Concurrency, p.Idle = concurrency, time.Minute
	d.cfg.Models.Providers["test"] = p
	d.cfg.Worker.Concurrency = 1
	return d
}

// agents submits agents, and waits until the provider is asked by as many as it gets requests.
func (d *desk) agents(t *testing.T, n *node.Node, count, asked int) (ids []events.TaskID) {
	t.Helper()
	for range count {
		ids = append(ids, submit(t, n.API(), agentPlan))
	}
	require.Eventually(t, func() bool { return d.asked.Load() == int64(asked) }, time.Minute, time.Millisecond)
	return ids
}

// Requests to models and other calls do not wait for each other: twenty models are asked by a node with one slot for calls, which reads a
// file meanwhile. The worker for models is in no list.
func TestRequestsToModelsHaveSlotsOfTheirOwn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 20)
	n := start(t, d.cfg)
	ids := d.agents(t, n, 20, 20)
	file := filepath.Join(d.cfg.Root, "notes.txt")
	require.NoError(t, os.WriteFile(file, []byte("milk\n"), 0o600))
	r := run(t, n.API(), "orch: v1\nname: r\nsteps: [{id: r, tool: FILE_READ, with: {file_path: "+file+"}}]\n")
	assert.Equal(t, statemachine.Done, r.State)
	status, err := n.API().Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	require.Len(t, status.Workers, 1)
	assert.Equal(t, []string{work.DefaultQueue}, status.Workers[0].Queues)
	assert.Equal(t, 20, status.Running)
	d.open()
	for _, id := range ids {
		assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
	}
}

// A provider gets no more requests at the same time than it is set to. The others wait, and say so; one that waits can be cancelled.
func TestProviderGetsNoMoreThanItsSlots(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 2)
	n := start(t, d.cfg)
	ids := d.agents(t, n, 5, 2)
	var waiting []events.TaskID
	for _, id := range ids {
		why, err := n.API().Explain(t.Context(), api.GetRequest{ID: id})
		require.NoError(t, err)
		for _, c := range why.Causes {
			if strings.Contains(c.Sentence, "look.t1.m waits for a slot of the provider test, which gets 2 requests at the same time (concurrency); 3 wait.") {
				waiting = append(waiting, id)
			}
		}
	}
	require.Len(t, waiting, 3)
	assert.EqualValues(t, 2, d.asked.Load())
	_, err := n.API().Cancel(t.Context(), api.CancelRequest{ID: waiting[0]})
	require.NoError(t, err)
	assert.Equal(t, statemachine.Cancelled, result(t, n.API(), waiting[0]).State)
	d.open()
	for _, id := range ids {
		if id != waiting[0] {
			assert.Equal(t, statemachine.Done, result(t, n.API(), id).State)
		}
	}
	assert.EqualValues(t, 4, d.asked.Load())
}
