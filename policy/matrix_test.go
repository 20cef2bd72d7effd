package policy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools/builtin"
)

// gates is the registry of the source documents: the states in which each tool may run, written down a
// second time. IP is IN_PROGRESS, AA AWAITING_APPROVAL, BL BLOCKED or IN_PROGRESS.
const gates = `
FILE_READ ANY · FILE_WRITE IP · FILE_EDIT IP · FILE_DELETE AA · DIRECTORY_CREATE IP · DIRECTORY_LIST ANY
DIRECTORY_DELETE AA · BASH_EXECUTE IP · GLOB_SEARCH ANY · GREP_SEARCH ANY · GIT_STATUS ANY · GIT_DIFF ANY
GIT_ADD IP · GIT_COMMIT IP · GIT_PUSH IP · HTTP_REQUEST IP · DATABASE_QUERY IP · TEST_EXECUTE ANY
BUILD_EXECUTE IP · PACKAGE_INSTALL IP · LOG_WRITE ANY · APPROVAL_REQUEST ANY · APPROVAL_CHECK ANY · QUESTION_ASK IP
CHECKPOINT_CREATE IP · CHECKPOINT_RESTORE BL · WEB_FETCH ANY · WEB_SEARCH ANY · NOTIFICATION_SEND ANY
patch_apply IP · append IP · write_file IP · create_directory IP · move_file IP · PROJECT_UNDO IP · shell_exec ANY · TASK_SPAWN ANY · AGENT_TASK IP
AGENT_CLAIM ANY · AGENT_HEARTBEAT ANY · AGENT_REPORT ANY
firebase.read ANY · firebase.write IP · firebase.subscribe ANY · firebase.unsubscribe ANY
MESSAGE_SEND IP · MESSAGE_ACK IP · MESSAGE_GROUP IP · MESSAGE_INBOX ANY
onboarding.registerAgent ANY · onboarding.getChecklist ANY · system.getAgents ANY
system.listSkills ANY · system.getTaskQueue ANY · system.getSystemStatus ANY · onboarding.getWelcome ANY
github.readFile ANY · github.searchCode ANY · github.createIssue IP · github.createPR IP · github.getWorkflowRuns ANY`

func allowedIn(gate string) []statemachine.State {
	switch gate {
	case "IP":
		return []statemachine.State{statemachine.InProgress}
	case "AA":
		return []statemachine.State{statemachine.AwaitingApproval}
	case "BL":
		return []statemachine.State{statemachine.Blocked, statemachine.InProgress}
	default:
		return statemachine.States()
	}
}

// S0-002, S0-003, S0-009, S0-020, S0-030, S0-040: every tool in every state. If a tool may not run, the state refuses
// it or, for the parked call of A-20, an approval is requested first.
func TestEveryToolInEveryState(t *testing.T) {
	t.Parallel()
	p := newPolicy(t, policy.Config{})
	want := map[string]string{}
	for cell := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(gates), "\n", " · "), " · ") {
		name, gate, _ := strings.Cut(cell, " ")
		want[name] = gate
	}
	cells := 0
	for _, tool := range builtin.All(builtin.Config{}) {
		spec := tool.Spec()
		allowed := allowedIn(want[spec.Name])
		assert.NotEmpty(t, want[spec.Name], "%s is not in the registry", spec.Name)
		for _, state := range statemachine.States() {
			cells++
			ask, err := p.Decide(&policy.Call{Spec: &spec, State: state, Args: []byte(`{}`), Workspace: workspace})
			parks := want[spec.Name] == "AA" && statemachine.Check(state, "task.approval_requested") == nil
			switch {
			case slices.Contains(allowed, state):
				assert.False(t, fault.Has(err, fault.StateNotAllowed), "%s in %s", spec.Name, state)
			case parks:
				assert.NotNil(t, ask, "%s in %s is not called, but asks", spec.Name, state)
			default:
				assert.True(t, fault.Has(err, fault.StateNotAllowed), "%s in %s", spec.Name, state)
			}
		}
	}
	assert.Equal(t, len(want)*len(statemachine.States()), cells, "the catalogue and the registry have the same tools")
}
