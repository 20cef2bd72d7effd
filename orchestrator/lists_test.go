package orchestrator_test

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/index"
	"github.com/orch-dev/orch/orchestrator"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// listed starts a node with an index of lists, and waits until the index is complete.
func listed(t *testing.T, log *indexed, path string, options ...option) (*node, *index.Index) {
	t.Helper()
	x := index.New(path, "log")
	t.Cleanup(x.Close)
	n := start(t, log.Log, append([]option{func(c *orchestrator.Config) {
		c.Log, c.Indexes, c.Lists, c.Limits.KeepListed, c.Limits.KeepOpen = log, log, x, 5, 5
	}}, options...)...)
	require.Eventually(t, x.Complete, time.Minute, time.Millisecond)
	return n, x
}

// act does something random with the tasks of a node.
func act(t *testing.T, n *node, r *rand.Rand, ids []events.TaskID) []events.TaskID {
	t.Helper()
	ctx := t.Context()
	if len(ids) == 0 || r.IntN(2) == 0 {
		plan := []string{setPlan, onePlan, napPlan, keyedWait, "orch: v1\nname: nightly-a\nlabels: {type: x, k: v}\nsteps:\n  - {id: a, set: {x: 1}}\n"}[r.IntN(5)]
		id := n.submit(plan, func(s *api.SubmitRequest) {
			s.Actor = []string{"user:ada", "user:bob"}[r.IntN(2)]
			s.Via = []string{"", "submit"}[r.IntN(2)]
		})
		return append(ids, id)
	}
	id := ids[r.IntN(len(ids))]
	switch r.IntN(6) {
	case 0:
		_, _ = n.Cancel(ctx, api.CancelRequest{ID: id, Reason: "no longer wanted"})
	case 1:
		if batch, err := n.Poll(ctx, work.Poll{Worker: "w", Free: 1}); err == nil && len(batch.Calls) > 0 {
			_ = n.fail("w", *batch.Calls[0], "denied")
		}
	case 2:
		if batch, err := n.Poll(ctx, work.Poll{Worker: "w", Free: 1}); err == nil && len(batch.Calls) > 0 {
			_ = n.report("w", *batch.Calls[0], `{"n":1}`)
		}
	case 3:
		_, _ = n.Redrive(ctx, api.RedriveRequest{ID: id, Actor: "user:ada"})
	case 4:
		_, _ = n.Pause(ctx, api.PauseRequest{ID: id, Actor: "user:ada"})
	default:
		_, _ = n.Archive(ctx, api.ArchiveRequest{Wait: time.Second})
	}
	return ids
}

// request returns a random request for a list.
func request(r *rand.Rand, ids []events.TaskID) api.ListRequest {
	some := func(of ...string) string { return of[r.IntN(len(of))] }
	list := api.ListRequest{
		Limit: 1 + r.IntN(20), Name: some("", "", "", "nightly-*", "nightly-a", "*", "none"), Requestor: some("", "", "user:ada", "user:eve"), Dead: r.IntN(4) == 0,
	}
	if r.IntN(3) == 0 {
		list.Labels = map[string]string{some("type", "k"): some("x", "v", "")}
	}
	for range r.IntN(3) {
		list.States = append(list.States, statemachine.States()[r.IntN(len(statemachine.States()))])
	}
	if r.IntN(5) == 0 {
		list.Since = ids[r.IntN(len(ids))].Time()
	}
	if r.IntN(5) == 0 {
		list.Until = ids[r.IntN(len(ids))].Time()
	}
	if r.IntN(5) == 0 {
		list.ChangedSince = time.Now().Add(-time.Duration(r.IntN(100)) * time.Millisecond)
	}
	if r.IntN(8) == 0 {
		list = api.ListRequest{Tree: ids[r.IntN(len(ids))]}
	}
	return list
}

// compareLists compares all pages of a request with and without the index.
func compareLists(t *testing.T, n *node, r api.ListRequest) {
	t.Helper()
	for {
		want, err := n.ListHeads(t.Context(), r)
		require.NoError(t, err)
		got, err := n.List(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, asJSON(t, want), asJSON(t, got), "%+v", r)
		if r.Cursor = got.Next; r.Cursor == "" {
			return
		}
	}
}

// asJSON returns the tasks of a page as text. Without the index, a finished task that was evicted from memory may not show that it
// was paused.
func asJSON(t *testing.T, page api.ListReply) string {
	t.Helper()
	for i := range page.Tasks {
		page.Tasks[i].Paused = page.Tasks[i].Paused && page.Tasks[i].State != statemachine.Done
	}
	data, err := json.MarshalIndent(page, "", " ")
	require.NoError(t, err)
	return string(data)
}

// Every list with the index equals the list without it, while tasks change, are archived, and across restarts.
func TestListsEqual(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2))
			log, path := &indexed{Log: memlog.New(memlog.Config{})}, filepath.Join(t.TempDir(), "lists.idx")
			var ids []events.TaskID
			for range 4 {
				n, x := listed(t, log, path)
				for range 40 {
					ids = act(t, n, r, ids)
				}
				settle(t, n, ids)
				for range 60 {
					compareLists(t, n, request(r, ids))
				}
				n.stop()
				x.Close()
			}
		})
	}
}

// settle waits until no task changes any more.
func settle(t *testing.T, n *node, ids []events.TaskID) {
	t.Helper()
	for _, id := range ids {
		_, err := n.Get(t.Context(), api.GetRequest{ID: id})
		require.NoError(t, err)
	}
}

// An index that was saved, or was never saved because the node was killed, is complete after the next start.
func TestListsAfterAKill(t *testing.T) {
	t.Parallel()
	log, path := &indexed{Log: memlog.New(memlog.Config{})}, filepath.Join(t.TempDir(), "lists.idx")
	n, x := listed(t, log, path)
	for range 10 {
		n.submit(setPlan)
	}
	n.stop()
	x.Close()

	n, _ = listed(t, log, "") // it saves nothing in the file
	var later []events.TaskID
	for range 10 {
		later = append(later, n.submit(setPlan))
	}
	_, err := n.Archive(t.Context(), api.ArchiveRequest{Wait: 10 * time.Second})
	require.NoError(t, err)
	n.stop()

	n, _ = listed(t, log, path)
	compareLists(t, n, api.ListRequest{Limit: 7})
	s, err := n.Status(t.Context(), api.StatusRequest{})
	require.NoError(t, err)
	assert.Equal(t, 20, s.Finished, "more than are in memory")
	found, err := n.Find(t.Context(), api.FindRequest{Text: string(later[3][:len(later[3])-1])})
	require.NoError(t, err)
	assert.Equal(t, later[3], found.ID)
	last, err := n.Find(t.Context(), api.FindRequest{Text: "@last"})
	require.NoError(t, err)
	assert.Equal(t, later[9], last.ID)
}

// Tasks that retention has removed are not in the index, and not after a restart.
func TestListsWithoutRemovedTasks(t *testing.T) {
	t.Parallel()
	log, path := &indexed{Log: memlog.New(memlog.Config{})}, filepath.Join(t.TempDir(), "lists.idx")
	n, x := listed(t, log, path)
	ids := []events.TaskID{n.submit(setPlan), n.submit(setPlan), n.submit(setPlan)}
	_, err := n.Archive(t.Context(), api.ArchiveRequest{Wait: 10 * time.Second})
	require.NoError(t, err)
	require.NoError(t, n.RemoveNow(context.Background(), ids[:2]))
	compareLists(t, n, api.ListRequest{})
	assert.Equal(t, 1, x.Finished())
	n.stop()
	x.Close()

	n, x = listed(t, log, path)
	compareLists(t, n, api.ListRequest{})
	assert.Equal(t, 1, x.Finished())
}
