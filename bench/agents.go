package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The workload of the rows about agents: how many work at once, and how many calls each requests, one in each turn but the last.
const (
	agentsAtOnce = 100
	agentCalls   = 19
)

// agents measures what agents cost the server, with a model outside of it that answers at once: the CPU time of a turn, with the call
// that it requests, and the memory of 100 agents that work at the same time.
func agents(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	model, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "the model of the benchmark cannot listen")
	}
	server := &http.Server{Handler: http.HandlerFunc(answerAtOnce), ReadHeaderTimeout: time.Minute}
	defer func() { _ = server.Close() }()
	go func() { _ = server.Serve(model) }() // until it is closed
	text, err := planOf("steps:\n  - {id: a, agent: {model: local/bench, prompt: Go on., tools: [LOG_WRITE]}}\n")
	if err != nil {
		return nil, err
	}
	runs, err := repeat(l.Config, func() (agentsCost, error) { return l.agentsRun(ctx, durability, "http://"+model.Addr().String(), text) })
	return []Row{
		figure("agents-cpu", fmt.Sprintf("server CPU of a turn of an agent and its call, %d agents at once", agentsAtOnce), "ms",
			each(runs, func(c agentsCost) float64 { return c.cpu })),
		figure("agents-rss", fmt.Sprintf("memory of %d agents at once, over idle", agentsAtOnce), "MiB",
			each(runs, func(c agentsCost) float64 { return c.memory })),
	}, err
}

// agentsCost is the CPU time of a turn in milliseconds, and the peak of the memory over that before in MiB.
type agentsCost struct{ cpu, memory float64 }

// agentsRun runs all agents at once on a new server.
func (l *benchRun) agentsRun(ctx context.Context, durability, model string, plan json.RawMessage) (cost agentsCost, err error) {
	dir, remove, err := l.fresh("agents")
	if err != nil {
		return cost, err
	}
	defer remove()
	server, err := l.serve(ctx, dir, durability, "--models", fmt.Sprintf(`{"providers":{"local":{"wire":"openai","url":"%s/v1"}}}`, model))
	if err != nil {
		return cost, err
	}
	defer server.stop()
	remote, hangUp, err := dial(ctx, dir)
	if err != nil {
		return cost, err
	}
	defer hangUp()
	if _, err := sleepAll(ctx, remote, plan, 1); err != nil { // what the first agent loads is no cost of the others
		return cost, err
	}
	idle, err := memoryOf(server.pid())
	if err != nil {
		return cost, err
	}
	peak := make(chan float64)
	done := make(chan struct{})
	go func() { peak <- highest(server.pid(), done) }()
	before := cpuOf(server.pid())
	_, err = sleepAll(ctx, remote, plan, agentsAtOnce)
	used := cpuOf(server.pid()) - before
	close(done)
	cost.memory = <-peak - idle.now
	cost.cpu = millis(used) / (agentsAtOnce * (agentCalls + 1))
	return cost, err
}

// highest returns the highest memory of a process in MiB until done is closed.
func highest(pid int, done <-chan struct{}) (most float64) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		if m, err := memoryOf(pid); err == nil {
			most = max(most, m.now)
		}
		select {
		case <-ticker.C:
		case <-done:
			return most
		}
	}
}

// answerAtOnce is a model that requests a call in each turn, and ends after agentCalls of them.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	turn := bytes.Count(body, []byte(`"role":"assistant"`)) + 1
	delta, stop := `{"role":"assistant","content":"Done."}`, "stop"
	if turn <= agentCalls {
		delta = fmt.Sprintf(`{"role":"assistant","content":"Next.","tool_calls":[{"index":0,"id":"c%d","type":"function","function":`+
			`{"name":"LOG_WRITE","arguments":"{\"level\":\"INFO\",\"message\":\"turn %d\"}"}}]}`, turn, turn)
		stop = "tool_calls"
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "data: {\"id\":\"r\",\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n"+
		"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":20}}\n\ndata: [DONE]\n\n", delta, stop, len(body)/4)
}
