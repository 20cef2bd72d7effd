package forge_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

func (s *server) runs(total int, own ...object) answer {
	list := make([]object, len(own))
	for i, run := range own {
		run["repository"] = s.object(s.t, "minimal-repository", nil)
		run["head_repository"] = run["repository"]
		list[i] = s.object(s.t, "workflow-run", run)
	}
	return answer{status: http.StatusOK, body: object{"total_count": total, "workflow_runs": list}}
}

// S3-070, A-87, S3-005.
func TestWorkflowRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	get := tool(t, s.config(), "github.getWorkflowRuns")
	s.on("GET /repos/o/r/actions/runs", s.runs(2, object{
		"id": 30433642, "name": "Build", "display_title": "A change", "workflow_id": 159038, "run_number": 562, "run_attempt": 2,
		"status": "completed", "conclusion": "failure", "event": "push", "head_branch": "main", "head_sha": "009b8a3",
		"html_url": "https://github.com/o/r/actions/runs/30433642", "created_at": "2026-01-22T20:33:08+01:00", "updated_at": "2026-01-22T19:33:09Z",
	}, object{}))
	out, err := call(t, get, in(object{"limit": 2}))
	require.NoError(t, err)
	assert.InDelta(t, 2, out["total"], 0)
	runs, ok := out["runs"].([]any)
	require.True(t, ok)
	require.Len(t, runs, 2)
	assert.Equal(t, object{
		"id": 30433642.0, "name": "Build", "title": "A change", "workflow_id": 159038.0, "run_number": 562.0, "run_attempt": 2.0,
		"status": "completed", "conclusion": "failure", "event": "push", "branch": "main", "sha": "009b8a3",
		"url": "https://github.com/o/r/actions/runs/30433642", "created_at": "2026-01-22T19:33:08Z", "updated_at": "2026-01-22T19:33:09Z",
	}, runs[0])
	out, err = call(t, get, in(object{"limit": 1}))
	require.NoError(t, err)
	assert.Len(t, out["runs"], 1, "never more than was asked for")
}

func TestWorkflowRunQueries(t *testing.T) {
	t.Parallel()
	s := serve(t)
	get := tool(t, s.config(), "github.getWorkflowRuns")
	for _, path := range []string{"runs", "workflows/ci.yml/runs", "workflows/a b%.yml/runs", "workflows/161335/runs"} {
		s.on("GET /repos/o/r/actions/"+path, s.runs(0))
	}
	for want, args := range map[string]object{
		"runs?per_page=30": {},
		"runs?branch=a%2Fb&per_page=100&status=timed_out": {"branch": "a/b", "status": "timed_out", "limit": 100},
		"workflows/ci.yml/runs?per_page=1":                {"workflow_id": "ci.yml", "limit": 1},
		"workflows/161335/runs?per_page=30":               {"workflow_id": 161335},
		"workflows/161335/runs?per_page=31":               {"workflow_id": "161335", "limit": 31},
		"workflows/a b%.yml/runs?per_page=30":             {"workflow_id": "a b%.yml"},
	} {
		out, err := call(t, get, in(args))
		require.NoError(t, err, want)
		assert.Equal(t, object{"runs": []any{}, "total": 0.0}, out)
		assert.Equal(t, []string{"GET /repos/o/r/actions/" + want}, s.seen())
	}
	for _, status := range []string{
		"completed", "action_required", "cancelled", "failure", "neutral", "skipped", "stale", "success", "timed_out", "in_progress",
		"queued", "requested", "waiting",
	} {
		_, err := call(t, get, in(object{"status": status}))
		require.NoError(t, err, status)
	}
}

func TestWorkflowRunErrors(t *testing.T) {
	t.Parallel()
	s := serve(t)
	get := tool(t, s.config(), "github.getWorkflowRuns")
	_, err := call(t, get, in(nil))
	failed(t, err, fault.NotFound, "REPO_NOT_FOUND", "repo")
	_, err = call(t, get, in(object{"workflow_id": "ci.yml"}))
	failed(t, err, fault.NotFound, "REPO_NOT_FOUND", "repo")
	s.repository()
	_, err = call(t, get, in(object{"workflow_id": "ci.yml"}))
	failed(t, err, fault.NotFound, "WORKFLOW_NOT_FOUND", "workflow_id")
	s.on("GET /repos/o/r/actions/runs", s.problem(http.StatusInternalServerError))
	_, err = call(t, get, in(nil))
	failed(t, err, fault.GithubError, "", "")
}
