package events_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const goldenTask events.TaskID = "TASK_01JD0000000000000000000000"

func goldenTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 123456000, time.UTC) }

// samples returns a full payload of every kind. Fields that are added to a payload later are not added here: the golden
// files contain what earlier versions wrote.
func samples() map[events.Kind]events.Payload {
	at := goldenTime()
	value := events.Inline(json.RawMessage(`{"n":12345678901234567890,"s":"ü <&>\u0000","z":null}`))
	failure := &fault.Error{Code: fault.ExecFailed, Message: "no", Reason: "Why", Field: "f", Hint: "h"}
	moved := &events.Moved{Reason: "because", Block: "input", Output: value, Error: failure}
	all := map[events.Kind]events.Payload{
		events.TaskSubmitted: &events.Submitted{
			Name: "n", Summary: "s", Plan: events.Inline(json.RawMessage(`{"orch":"v1"}`)), PlanSHA256: "ab", Inputs: events.Offloaded([]byte("1")),
			Labels: map[string]string{"a": "b"}, Priority: "normal", Queue: "q", IdempotencyKey: "k", RequestSHA256: "cd",
			Concurrency: &events.Concurrency{Key: "c", Limit: 2, OnConflict: "queue"},
			Parent:      &events.Parent{Task: goldenTask, Step: "p", Depth: 1}, DependsOn: []events.TaskID{goldenTask},
			NotBefore: &at, Deadline: &at, MaxSteps: 3, RetryOf: goldenTask,
		},
		events.TaskPaused: &events.Paused{Reason: "r"}, events.TaskResumed: &events.Paused{},
		events.TaskCancelRequested: &events.CancelRequested{Reason: "r"}, events.TaskEnding: &events.Ending{Error: failure},
		events.StepReady:     &events.Ready{Step: "a", Attempt: 1, Tool: "T", Args: value, Effect: "read", Queue: "q", Timeout: time.Second, Purpose: "call"},
		events.StepCalled:    &events.Called{Step: "a", Attempt: 1, Worker: "w", At: at},
		events.StepSucceeded: &events.Succeeded{Step: "a", Attempt: 1, Output: value, Duration: time.Second},
		events.StepFailed:    &events.StepError{Step: "a", Attempt: 1, Error: failure, Class: "timeout", Duration: time.Second},
		events.StepRetrying:  &events.Retrying{Step: "a", Attempt: 1, Counts: true, Error: failure, Class: "timeout", Duration: time.Second, At: at},
		events.StepSkipped:   &events.Skipped{Step: "a", Reason: "r"}, events.StepCancelled: &events.Skipped{Step: "a", Reason: "r"},
		events.StepInDoubt:    &events.InDoubt{Step: "a", Attempt: 1, Reason: "r"},
		events.StepResolved:   &events.Resolved{Step: "a", As: "succeeded", By: "user:ada", Reason: "r", Output: value},
		events.StepExpanded:   &events.Expanded{Step: "a", Items: []events.Value{value, events.Offloaded([]byte("2"))}},
		events.StepWaiting:    &events.Waiting{Step: "a", Until: &at, Signal: "s", Default: value},
		events.StepSpawned:    &events.Spawned{Step: "a", Child: goldenTask, Inputs: value},
		events.StepReused:     &events.Reused{Step: "a", From: goldenTask, Output: value},
		events.SignalReceived: &events.Signal{Name: "s", Data: value}, events.DependencyMet: &events.Met{Task: goldenTask, State: "DONE"},
		events.FileRead:          &events.Read{Path: "p", SHA256: "ab"},
		events.LogWritten:        &events.Logged{Step: "a", Level: "INFO", Message: "m\n", Context: json.RawMessage(`{"a":1}`), At: at},
		events.CheckpointCreated: &events.Checkpointed{ID: "CKPT_1", Name: "n", State: value, At: at}, events.CheckpointRestored: &events.Restored{ID: "CKPT_1", At: at},
		events.ResultRefused: &events.Refused{Step: "a", Attempt: 1, Worker: "w", Reason: "r"},
		events.StepParked:    &events.Parked{Step: "a", Attempt: 1, Approval: "APR_1"},
		events.ApprovalRequested: &events.Approval{
			ID: "APR_1", Step: "a", Type: "checkpoint", Tool: "T", ArgsSHA256: "ab", Scopes: []string{"endpoint https://h:443"},
			Description: "d", Details: value, Rationale: "r", Priority: "high", Risk: "low", Requester: "task:" + string(goldenTask),
			ExpiresAt: at, RemindAt: &at, OnReject: "fail", OnExpiry: "block", Quorum: 2, Form: value, Default: value, Follows: "APR_0",
		},
		events.ApprovalVoted:    &events.Decision{ID: "APR_1", Approver: "user:ada", At: at},
		events.ApprovalRevoked:  &events.Decision{ID: "APR_1", Approver: "user:ada", Reason: "r", At: at},
		events.ApprovalGranted:  &events.Decision{ID: "APR_1", Approver: "user:ada", Reason: "r", At: at, ValidUntil: &at, Form: value},
		events.ApprovalRejected: &events.Decision{ID: "APR_1", Approver: "user:ada", Reason: "r", At: at, Disposition: "revise"},
		events.FileChanged:      &events.Changed{Path: "/p", How: "M"},
		events.ApprovalUsed:     &events.Used{ID: "APR_1", By: "TASK_2"},
		events.ApprovalExpired:  &events.Elapsed{ID: "APR_1", At: at}, events.ApprovalReminded: &events.Elapsed{ID: "APR_1", At: at},
		events.QuestionAsked:    &events.Question{ID: "ASK_1", Step: "a", Key: "name", Kind: events.Elicitation, Params: value, ExpiresAt: at},
		events.QuestionAnswered: &events.Answer{ID: "ASK_1", By: "user:ada", Action: "accept", Response: value, At: at},
		events.QuestionExpired:  &events.Unanswered{ID: "ASK_1", Reason: "r", At: at},
		events.StepDivided:      &events.Divided{Step: "a", Lists: []events.Value{value, events.Offloaded([]byte("2"))}, Chunk: 4, Total: 7, Size: 2},
		events.TaskPart: &events.Part{
			Step: "a", List: value, From: 1, First: 4, Count: 2, Parallel: 3,
			Known: []events.Known{{Step: "b", State: "failed", Output: value, Error: failure, Attempts: 2}},
		},
		events.AgentStarted: &events.Agent{
			Step: "a", Models: []events.Model{{Name: "m/x", Price: events.Price{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4, AsOf: "2026-11-01"}}},
			Instructions: value, Prompt: value, Tools: events.Offloaded([]byte("2")), Result: value, MaxTurns: 3, MaxTokens: 4, Temperature: new(0.5),
			Limit: events.Spent{NanoUSD: 5, Tokens: 6, Calls: 7}, Until: &at, OnExceeded: "finish",
		},
		events.TurnRequested: &events.Turn{
			Step: "a", Turn: 2, Conversation: "sha256-ab", Reserved: events.Spent{NanoUSD: 5, Tokens: 6}, Added: value, Final: true,
		},
		events.TurnAnswered: &events.Answered{
			Step: "a", Turn: 2, Model: 1, Stop: "calls", Usage: events.Usage{Input: 1, CacheRead: 2, CacheWrite: 3, Output: 4}, NanoUSD: 5, Calls: 2,
		},
		events.TurnLost:    &events.LostTurn{Step: "a", Turn: 2, Attempt: 3, Cost: events.Spent{NanoUSD: 5, Tokens: 6}},
		events.TaskCharged: &events.Charged{Step: "a.t1.c1", Child: "TASK_1", Cost: events.Spent{NanoUSD: 5, Tokens: 6}},
		events.TurnRefused: &events.RefusedTurn{Step: "a", Turn: 2, CompactAt: 3},
		events.AgentTold:   &events.Told{Step: "a", Message: events.Message{Text: value, By: "user:ada"}, End: true},
		events.AgentExtended: &events.Extended{
			Step: "a", Approval: "APR_1", MaxTurns: 3, Limit: events.Spent{NanoUSD: 5, Tokens: 6, Calls: 7}, Until: &at,
		},
		events.StepNoted: &events.Noted{Step: "a", Attempt: 1, Note: json.RawMessage(`{"n":12345678901234567890,"s":"ü <&>"}`), Elsewhere: true},
	}
	for _, k := range events.Kinds() {
		if all[k] == nil {
			all[k] = moved
		}
	}
	return all
}

func goldenCommit(k events.Kind) *events.Commit {
	return &events.Commit{
		Task: goldenTask, Rev: 2, At: goldenTime(), Actor: "user:ada <a&b>", Cause: "req-1", Prev: events.Hash(nil),
		Events: []events.Event{{Kind: k, Data: samples()[k]}},
	}
}

// Every kind has a golden file. Its content must always decode and encode to the same bytes. Files are only added:
// ORCH_UPDATE_GOLDEN=1 writes the file of a new kind, and never overwrites an existing file.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, k := range events.Kinds() {
		name := filepath.Join("testdata", "golden", string(k)+".json")
		if _, err := os.Stat(name); os.IsNotExist(err) && os.Getenv("ORCH_UPDATE_GOLDEN") != "" {
			addGolden(t, name, goldenCommit(k))
		}
		golden, err := os.ReadFile(name)
		require.NoError(t, err, "a new kind needs a golden file: ORCH_UPDATE_GOLDEN=1 go test ./events")
		golden = bytes.TrimSuffix(golden, []byte("\n"))
		c, err := events.Decode(golden)
		require.NoError(t, err, name)
		require.Equal(t, k, c.Events[0].Kind)
		again, err := events.Encode(c)
		require.NoError(t, err)
		assert.Equal(t, string(golden), string(again), "%s is read and written the same", name)
		written, err := events.Encode(goldenCommit(k))
		require.NoError(t, err)
		assert.Equal(t, string(golden), string(written), "the shape of %s has changed: add an upcaster and a new kind or field", k)
	}
}

// addGolden writes a golden file and its line in the list of digests.
func addGolden(t *testing.T, name string, c *events.Commit) {
	t.Helper()
	data, err := events.Encode(c)
	require.NoError(t, err)
	data = append(data, '\n')
	require.NoError(t, os.WriteFile(name, data, 0o600))
	list, err := os.OpenFile(filepath.Join("testdata", "golden.sha256"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = list.WriteString(events.Hash(data) + "  " + filepath.Base(name) + "\n")
	require.NoError(t, err)
	require.NoError(t, list.Close())
}

// A golden file belongs to a kind that can still be read: kinds are never removed.
func TestGoldenFilesAreKinds(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	require.NoError(t, err)
	assert.Len(t, files, len(events.Kinds()))
	sums, err := os.ReadFile(filepath.Join("testdata", "golden.sha256"))
	require.NoError(t, err)
	listed := 0
	for line := range bytes.Lines(sums) {
		hash, name, ok := bytes.Cut(bytes.TrimSpace(line), []byte("  "))
		require.True(t, ok)
		data, err := os.ReadFile(filepath.Join("testdata", "golden", string(name)))
		require.NoError(t, err, "a golden file is never removed")
		assert.Equal(t, string(hash), events.Hash(data), "%s was changed; golden files are only added", name)
		listed++
	}
	assert.Equal(t, len(files), listed, "every golden file is listed in testdata/golden.sha256")
}
