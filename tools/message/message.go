// Package message is the family of tools by which agents and people speak to each other (the Sartor network behind
// seed 003). A tool acts for whoever made its call: the office of the node finds out who that is.
package message

import (
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/tools"
)

// Config is what the family needs of the node.
type Config struct {
	// Office takes and gives out messages. Nil refuses all calls.
	Office messages.Office[messages.Call]
}

// Tools returns the family.
func Tools(cfg Config) []tools.Tool {
	return []tools.Tool{messageSend(cfg), messageInbox(cfg), messageAck(cfg), messageGroup(cfg)}
}

// office returns the office, UNAVAILABLE when there is none.
func (c Config) office() (messages.Office[messages.Call], error) {
	if c.Office == nil {
		return nil, fault.New(fault.Unavailable, "nobody takes messages here")
	}
	return c.Office, nil
}

// callOf names the call for the office.
func callOf(env *tools.Env) messages.Call {
	return messages.Call{Task: string(env.Task), Step: env.Step, Attempt: env.Attempt}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
