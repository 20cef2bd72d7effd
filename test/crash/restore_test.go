package crash_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/schedules"
	"github.com/orch-dev/orch/test/crash"
)

// startTwoNodes starts two nodes on three servers, without workers and clients of their own.
func startTwoNodes(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{
		t: t, dir: dir, options: options{cluster: true, standby: true}, biller: newBiller(t), budgets: &budgets{}, lost: map[int]string{},
		points: map[failpoint.Point]int{}, agentOf: map[int]string{}, absences: []crash.Absence{}, place: "data",
	}
	t.Cleanup(c.killAll)
	require.NoError(t, os.Mkdir(tempDir(dir), 0o700))
	c.startBrokers()
	c.startPair()
	return c
}

// streams returns the streams of a store on the servers, with their numbers of messages.
func (c *cluster) streams(use func(js jetstream.JetStream, name string)) map[string]uint64 {
	c.t.Helper()
	nc, err := nats.Connect(c.urlAs(adminOfBrokers))
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	found := map[string]uint64{}
	list := js.ListStreams(c.t.Context())
	for info := range list.Info() {
		if strings.Contains(info.Config.Name, "ORCH_") && info.Config.Name != "KV_ORCH_MEMBERS" {
			found[info.Config.Name] = info.State.Msgs
		}
	}
	require.NoError(c.t, list.Err())
	for name := range found {
		if use != nil {
			use(js, name)
		}
	}
	return found
}

// keep is what a backup has of a node, and what a restore must bring back.
type keep struct {
	done, open events.TaskID
}

// fill makes a task that is done and held, one that is open, and a schedule.
func (p *pair) fill() keep {
	t := p.c.t
	t.Helper()
	submit := func(name, steps string) events.TaskID {
		plan, err := json.Marshal("orch: v1\nname: " + name + "\nsteps: [" + steps + "]\n")
		require.NoError(t, err)
		reply, err := p.client.Submit(t.Context(), api.SubmitRequest{Plan: plan, Labels: map[string]string{"kept": "yes"}})
		require.NoError(t, err)
		return reply.ID
	}
	k := keep{done: submit("kept", "{id: a, set: {n: 1}}"), open: submit("waits", "{id: a, wait: {signal: go}}")}
	_, err := p.client.Result(t.Context(), api.ResultRequest{ID: k.done, Wait: activeWithin})
	require.NoError(t, err)
	_, err = p.client.PlaceHold(t.Context(), api.HoldRequest{IDs: []events.TaskID{k.done}, Reason: "the audit"})
	require.NoError(t, err)
	_, err = p.client.PutSchedule(t.Context(), api.PutScheduleRequest{Name: "yearly", Definition: schedules.Definition{
		Spec: schedules.Spec{Cron: []string{"@yearly"}}, Plan: json.RawMessage(`{"orch":"v1","steps":[{"id":"a","set":{"n":1}}]}`),
	}})
	require.NoError(t, err)
	return k
}

// has checks that the active node has what was kept, and nothing that came after it.
func (p *pair) has(k keep) {
	t := p.c.t
	t.Helper()
	list, err := p.client.List(t.Context(), api.ListRequest{Labels: map[string]string{"kept": "yes"}, Limit: 10})
	require.NoError(t, err)
	states := map[events.TaskID]string{}
	for _, task := range list.Tasks {
		states[task.ID] = string(task.State)
	}
	assert.Equal(t, map[events.TaskID]string{k.done: "DONE", k.open: "IN_PROGRESS"}, states)
	held, err := p.client.Holds(t.Context(), api.HoldsRequest{})
	require.NoError(t, err)
	require.Len(t, held.Holds, 1)
	assert.Equal(t, k.done, held.Holds[0].Task)
	all, err := p.client.Schedules(t.Context(), api.SchedulesRequest{})
	require.NoError(t, err)
	require.Len(t, all.Schedules, 1)
	assert.Equal(t, "yearly", all.Schedules[0].Name)
	report, err := p.client.Verify(t.Context())
	require.NoError(t, err)
	assert.Empty(t, report.Problems)
}

// backedUp returns two nodes on a cluster, what a backup of them has, and its file.
func backedUp(t *testing.T) (p *pair, kept keep, file string) {
	t.Helper()
	c := startTwoNodes(t)
	p, kept, file = c.pair, c.pair.fill(), filepath.Join(c.dir, "kept.backup")
	_, err := p.client.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	return p, kept, file
}

// restore restores a backup to the servers of the cluster.
func (c *cluster) restore(file string) error {
	_, err := node.RestoreCluster(c.t.Context(), c.config(), file, operator, func(string) {})
	return err
}

// A backup is restored to a cluster only while no node runs and the servers have no store. Then both nodes start, and each of
// them can be active.
func TestRestoreToACluster(t *testing.T) {
	t.Parallel()
	p, kept, file := backedUp(t)
	c, restore := p.c, func() error { return p.c.restore(file) }
	_, err := p.client.Cancel(t.Context(), api.CancelRequest{ID: kept.open})
	require.NoError(t, err)

	active := p.active()
	before := c.streams(nil)
	err = restore()
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	require.ErrorContains(t, err, "(active)")
	p.nodes[active].terminate()
	p.awaitActive(1 - active)
	require.ErrorContains(t, restore(), "(active)", "the other one has taken over")
	p.nodes[1-active].terminate()
	require.Eventually(t, func() bool { err = restore(); return !strings.Contains(err.Error(), "run: ") }, activeWithin, 100*time.Millisecond)
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	require.ErrorContains(t, err, "ORCH_EVENTS", "the store of the cluster is replaced by nobody")
	for name := range before {
		assert.Contains(t, c.streams(nil), name)
	}

	c.streams(func(js jetstream.JetStream, name string) { require.NoError(t, js.DeleteStream(t.Context(), name)) })
	require.NoError(t, restore())
	for i := range p.nodes {
		p.start(i)
	}
	p.has(kept)
	active = p.active()
	p.nodes[active].kill()
	p.awaitActive(1 - active)
	p.has(kept)
	_, err = p.client.Signal(t.Context(), api.SignalRequest{ID: kept.open, Name: "go"})
	require.NoError(t, err)
	reply, err := p.client.Result(t.Context(), api.ResultRequest{ID: kept.open, Wait: activeWithin})
	require.NoError(t, err)
	assert.True(t, reply.Ended)
}

// awaitActive waits until a node is active.
func (p *pair) awaitActive(i int) {
	p.c.t.Helper()
	require.Eventually(p.c.t, func() bool { return p.active() == i }, activeWithin, 20*time.Millisecond)
}

// A restore that is cut off leaves nothing that a node would use: it does not start before the restore is repeated.
func TestRestoreIsCutOff(t *testing.T) {
	t.Parallel()
	p, kept, file := backedUp(t)
	c := p.c
	p.stop()
	c.streams(func(js jetstream.JetStream, name string) { require.NoError(t, js.DeleteStream(t.Context(), name)) })
	c.cutOff(file)
	_, err := node.Start(t.Context(), c.config())
	require.True(t, fault.Has(err, fault.Conflict), "%v", err)
	assert.Equal(t, bus.ReasonHalfRestored, fault.From(err).Reason)
	require.Eventually(t, func() bool { return c.restore(file) == nil }, activeWithin, 100*time.Millisecond)
	for i := range p.nodes {
		p.start(i)
	}
	p.has(kept)
}

// cutOff begins a restore, and leaves what a process leaves that is killed in its middle.
func (c *cluster) cutOff(file string) {
	c.t.Helper()
	nc, err := nats.Connect(c.urlAs(adminOfBrokers))
	require.NoError(c.t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(c.t, err)
	members, err := js.KeyValue(c.t.Context(), "ORCH_MEMBERS")
	require.NoError(c.t, err)
	_, err = members.PutString(c.t.Context(), "restoring", `{"file":"`+file+`"}`)
	require.NoError(c.t, err)
	_, err = js.CreateKeyValue(c.t.Context(), jetstream.KeyValueConfig{Bucket: "ORCH_META"})
	require.NoError(c.t, err)
}
