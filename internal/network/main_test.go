package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/work"
)

// envAgent holds the credential of the agent that a child process is, envLedger the file in which it notes what it does.
const (
	envAgent  = "ORCH_TEST_AGENT"
	envLedger = "ORCH_TEST_LEDGER"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(envAgent); text != "" {
		if err := beAgent(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// deed is a line of the ledger.
type deed struct {
	Key   string `json:"key"`
	Agent string `json:"agent"`
	// Done is false at the begin of a call.
	Done bool `json:"done"`
}

// callRPC calls a tool as an agent, and decodes its result.
func callRPC(ctx context.Context, cred peer.Credential, tool string, args, result any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": tool, "params": args})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, cred.URL+"/rpc", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+cred.Secret)
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	var got struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		return err
	}
	if got.Error != nil {
		return fmt.Errorf("%s: %s", tool, got.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(got.Result, result)
}

// beAgent is an agent until it is interrupted.
func beAgent(text string) error {
	var cred peer.Credential
	if err := json.Unmarshal([]byte(text), &cred); err != nil {
		return err
	}
	ledger, err := os.OpenFile(os.Getenv(envLedger), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	note := func(key string, done bool) {
		line, _ := json.Marshal(deed{key, cred.Name, done})
		_, _ = ledger.Write(append(line, '\n')) // one write, which others append to in one piece as well
	}
	p, err := peer.New(peer.Config{
		Credential: cred,
		Handler: func(ctx context.Context, a agents.Assignment, _ func(work.Progress)) agents.Report {
			note(a.Key, false)
			select {
			case <-time.After(100 * time.Millisecond): // the work
			case <-ctx.Done():
				return agents.Report{Error: ctx.Err().Error()}
			}
			note(a.Key, true)
			if strings.Contains(string(a.Args), "do research") { // who analyses hears of it
				err := callRPC(ctx, cred, "MESSAGE_SEND", map[string]any{
					"to": []string{"agent:dee"}, "type": "task", "correlation_id": string(a.Task), "text": "found by " + cred.Name, "key": a.Key,
				}, nil)
				if err != nil {
					return agents.Report{Error: err.Error()}
				}
			}
			return agents.Report{Result: json.RawMessage(`{"by":"` + cred.Name + `"}`)}
		},
	})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return p.Run(ctx)
}
