// Package message is the family of tools by which agents and people speak to each other (the Sartor network behind
// seed 003). A tool acts for whoever made its call: the broker of the node finds out who that is.
package message

import (
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
)

// Config is what the family needs of the node.
type Config struct {
	// Broker takes and gives out messages. Nil refuses all calls.
	Broker messages.Broker[messages.Call]
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{messageSend(cfg), messageInbox(cfg), messageAck(cfg), messageGroup(cfg)}
}

// broker returns the broker, UNAVAILABLE when there is none.
func (c Config) broker() (messages.Broker[messages.Call], error) {
	if c.Broker == nil {
		return nil, fault.New(fault.Unavailable, "nobody takes messages here")
	}
	return c.Broker, nil
}

// callOf names the call for the broker.
func callOf(env *tools.Env) messages.Call {
	return messages.Call{Task: string(env.Task), Step: env.Step, Attempt: env.Attempt}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
