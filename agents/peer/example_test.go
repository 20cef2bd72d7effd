package peer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/work"
)

// An agent is a handler and a credential, which `orch agents register` prints. The server here stands for a node with one call.
func ExamplePeer_Run() {
	calls := make(chan agents.Assignment, 1)
	calls <- agents.Assignment{
		Ref: work.Ref{Task: "TASK_01JD0000000000000000000000", Step: "review", Attempt: 1}, Args: json.RawMessage(`{"title":"look"}`),
		Lease: agents.Interval, Remaining: agents.Interval,
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer agents.Work
		switch r.URL.Path {
		case agents.TasksPath:
			_, _ = io.Copy(io.Discard, r.Body) // else nobody notices when the agent goes
			select {
			case call := <-calls:
				answer.Calls = append(answer.Calls, call)
			case <-r.Context().Done():
			}
		case agents.ResultsPath:
			var report agents.Report
			_ = json.NewDecoder(r.Body).Decode(&report)
			fmt.Println(report.Step, string(report.Result))
			stop()
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	defer node.Close()

	agent, err := peer.New(peer.Config{
		Credential: peer.Credential{URL: node.URL, Agent: "agent-1", Name: "ada", MaxTasks: 1, Secret: agents.NewSecret()},
		Handler: func(_ context.Context, a agents.Assignment, _ func(work.Progress)) agents.Report {
			return agents.Report{Result: json.RawMessage(`{"said":` + string(a.Args) + `}`)}
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(agent.Run(ctx))
	// Output:
	// review {"said":{"title":"look"}}
	// <nil>
}
