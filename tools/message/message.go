// Package message is the family of tools with which agents and people exchange messages. A tool acts for the identity
// that made the call. The broker of the node determines that identity from the call.
package message

import (
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
)

// Config configures the family.
type Config struct {
	// Broker sends and delivers messages. If it is nil, all calls fail.
	Broker messages.Broker[messages.Call]
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{messageSend(cfg), messageInbox(cfg), messageAck(cfg), messageGroup(cfg)}
}

// broker returns the broker. It returns UNAVAILABLE when there is none.
func (c Config) broker() (messages.Broker[messages.Call], error) {
	if c.Broker == nil {
		return nil, fault.New(fault.Unavailable, "this node delivers no messages")
	}
	return c.Broker, nil
}

// callOf identifies the call for the broker.
func callOf(env *tools.Env) messages.Call {
	return messages.Call{Task: string(env.Task), Step: env.Step, Attempt: env.Attempt}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
