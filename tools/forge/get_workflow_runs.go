package forge

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type getWorkflowRunsIn struct {
	Owner      string          `json:"owner" jsonschema:"Repository owner"`
	Repo       string          `json:"repo" jsonschema:"Repository name"`
	WorkflowID json.RawMessage `json:"workflow_id,omitempty" jsonschema:"Workflow ID or filename" types:"string,integer"`
	Status     string          `json:"status,omitempty" jsonschema:"Status or conclusion of the runs" enum:"completed,action_required,cancelled,failure,neutral,skipped,stale,success,timed_out,in_progress,queued,requested,waiting"`
	Branch     string          `json:"branch,omitempty" jsonschema:"Branch of the runs"`
	Limit      int             `json:"limit,omitempty" jsonschema:"Maximum number of runs, the newest first" minimum:"1" maximum:"100" default:"30"`
}

type getWorkflowRunsOut struct {
	Runs  []workflowRun `json:"runs" jsonschema:"The runs, the newest first"`
	Total int           `json:"total" jsonschema:"Total number of runs"`
}

type workflowRun struct {
	ID         int64     `json:"id" jsonschema:"Id on GitHub"`
	Name       string    `json:"name,omitempty" jsonschema:"Name of the workflow"`
	Title      string    `json:"title,omitempty" jsonschema:"Title of the run"`
	WorkflowID int64     `json:"workflow_id" jsonschema:"Id of the workflow"`
	Number     int       `json:"run_number" jsonschema:"Number of the run in its workflow"`
	Attempt    int       `json:"run_attempt,omitempty" jsonschema:"Number of the attempt"`
	Status     string    `json:"status,omitempty" jsonschema:"Status, such as completed"`
	Conclusion string    `json:"conclusion,omitempty" jsonschema:"Conclusion, such as success"`
	Event      string    `json:"event" jsonschema:"Event that started the run"`
	Branch     string    `json:"branch,omitempty" jsonschema:"Branch of the commit"`
	SHA        string    `json:"sha" jsonschema:"The commit"`
	URL        string    `json:"url" jsonschema:"Page for people"`
	CreatedAt  time.Time `json:"created_at" jsonschema:"When the run was made"`
	UpdatedAt  time.Time `json:"updated_at" jsonschema:"Time of the last change"`
}

// sentRuns is a page of runs as GitHub sends it.
type sentRuns struct {
	Runs  []sentRun `json:"workflow_runs"`
	Total int       `json:"total_count"`
}

// sentRun has the fields of a workflowRun by the names that GitHub gives them.
type sentRun struct {
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	Title      string    `json:"display_title"`
	WorkflowID int64     `json:"workflow_id"`
	Number     int       `json:"run_number"`
	Attempt    int       `json:"run_attempt"`
	Status     string    `json:"status"`
	Conclusion string    `json:"conclusion"`
	Event      string    `json:"event"`
	Branch     string    `json:"head_branch"`
	SHA        string    `json:"head_sha"`
	URL        string    `json:"html_url"`
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// getWorkflowRuns is github.getWorkflowRuns (S3-070).
func getWorkflowRuns(a *api) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "github.getWorkflowRuns",
		Title:       "List workflow runs on GitHub",
		Purpose:     "Get GitHub Actions workflow runs",
		Conditions:  []string{"Any task state", "A private repository needs github_token"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors: []string{
			"REPO_NOT_FOUND", "WORKFLOW_NOT_FOUND", "ACCESS_DENIED", "RATE_LIMIT", "INVALID_FORMAT", "VALIDATION_ERROR", "GITHUB_ERROR",
			"TIMEOUT", "TOOL_UNAVAILABLE",
		},
	}, func(ctx context.Context, env *tools.Env, in getWorkflowRunsIn) (getWorkflowRunsOut, error) {
		workflow, err := in.check()
		if err != nil {
			return getWorkflowRunsOut{}, err
		}
		if err := a.checkConfig(); err != nil {
			return getWorkflowRunsOut{}, err
		}
		ctx, cancel := withCallTimeout(ctx)
		defer cancel()
		runs, err := a.runs(ctx, in, workflow)
		switch {
		case status(err) == http.StatusNotFound && workflow != "":
			return getWorkflowRunsOut{}, a.workflowError(ctx, in, env.Now())
		case err != nil:
			return getWorkflowRunsOut{}, a.apiError(err, env.Now())
		}
		return in.output(runs), nil
	})
}

// check validates the input. It returns the id or file name of the workflow, escaped for a URL; "" means all workflows.
func (in getWorkflowRunsIn) check() (string, error) {
	if err := checkRepository(in.Owner, in.Repo); err != nil {
		return "", err
	}
	if in.Branch != "" {
		if err := checkRef("branch", in.Branch); err != nil {
			return "", err
		}
	}
	name := string(in.WorkflowID)
	if name == "" {
		return "", nil
	}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return name, nil
	}
	if err := json.Unmarshal(in.WorkflowID, &name); err != nil {
		return "", fault.Wrap(fault.InvalidFormat, err, "must be the id or the file name of a workflow").WithField("workflow_id")
	}
	if name == "" || name == "." || name == ".." || len(name) > maxRef || strings.Contains(name, "/") || hasControl(name) {
		return "", fault.New(fault.InvalidFormat, "must be the id or the file name of a workflow").WithField("workflow_id").
			WithHint("write it as ci.yml, without its folder")
	}
	return url.PathEscape(name), nil
}

// runs requests the runs of a workflow, or of all with "".
func (a *api) runs(ctx context.Context, in getWorkflowRunsIn, workflow string) (sentRuns, error) {
	query := url.Values{"per_page": {strconv.Itoa(in.Limit)}}
	if in.Branch != "" {
		query.Set("branch", in.Branch)
	}
	if in.Status != "" {
		query.Set("status", in.Status)
	}
	path := repoPath(in.Owner, in.Repo) + "/actions"
	if workflow != "" {
		path += "/workflows/" + workflow
	}
	var runs sentRuns
	err := a.rest.get(ctx, path+"/runs", query, acceptJSON, &runs)
	return runs, err
}

// workflowError returns the error for a workflow that was not found. It makes a request to determine whether the
// repository exists.
func (a *api) workflowError(ctx context.Context, in getWorkflowRunsIn, now time.Time) error {
	if _, err := a.repository(ctx, in.Owner, in.Repo); err != nil {
		return a.apiError(err, now)
	}
	return fault.New(fault.NotFound, "is not a workflow of the repository").WithField("workflow_id").WithReason("WORKFLOW_NOT_FOUND")
}

func (in getWorkflowRunsIn) output(sent sentRuns) getWorkflowRunsOut {
	out := getWorkflowRunsOut{Runs: make([]workflowRun, 0, len(sent.Runs)), Total: sent.Total}
	for _, r := range sent.Runs {
		if len(out.Runs) == in.Limit {
			break
		}
		r.CreatedAt, r.UpdatedAt = r.CreatedAt.UTC(), r.UpdatedAt.UTC()
		out.Runs = append(out.Runs, workflowRun(r))
	}
	return out
}
