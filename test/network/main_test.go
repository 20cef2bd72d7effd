package network_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/work"
)

// envAgent is the credential of the agent in a child process, envLedger the file in which it records its work. envSlow
// is set for an agent with calls that do not end.
const (
	envAgent  = "ORCH_TEST_AGENT"
	envLedger = "ORCH_TEST_LEDGER"
	envSlow   = "ORCH_TEST_SLOW"
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
	// Done is false at the start of a call.
	Done bool `json:"done"`
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
	took := 100 * time.Millisecond
	if os.Getenv(envSlow) != "" {
		took = time.Hour
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
			case <-time.After(took): // the work
			case <-ctx.Done():
				return agents.Report{Error: ctx.Err().Error()}
			}
			if err := sendMessage(ctx, cred, a.Key); err != nil {
				return agents.Report{Error: err.Error()}
			}
			note(a.Key, true)
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

type object = map[string]any

// rpc calls a tool as an agent.
func rpc(ctx context.Context, cred peer.Credential, method string, params object, result any) error {
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, cred.URL+"/rpc", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+cred.Secret)
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	reply := struct {
		Result any             `json:"result"`
		Error  json.RawMessage `json:"error"`
	}{Result: result}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return errors.New(string(reply.Error))
	}
	return nil
}

// reader returns the agent to which an agent reports its work.
func reader(name string) string {
	if name == "dee" {
		return "bob"
	}
	return "dee"
}

// sendMessage sends a message about a call to another agent, and repeats that until the node acknowledges it. The key makes
// repeated sends one message.
func sendMessage(ctx context.Context, cred peer.Credential, key string) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		params := object{"to": []string{"agent:" + reader(cred.Name)}, "text": key, "key": key, "type": "task"}
		if err := rpc(ctx, cred, "MESSAGE_SEND", params, nil); err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
