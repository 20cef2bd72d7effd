package orchestrator

import (
	"fmt"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/orchestrator/dispatch"
	"github.com/orch-dev/orch/statemachine"
)

// becauseWorkers fills in c for a call that no online worker may take: what they lack, and how to start one that may. It returns
// false if there is one.
func (t *explanation) becauseWorkers(s *statemachine.Step, c *api.Cause) bool {
	l := t.rd.engine.queue.laneOf(t.Task, s)
	missing := t.rd.engine.queue.dispatcher.Missing(l)
	if missing == dispatch.NothingMissing {
		return false
	}
	c.Kind, c.Next = "no_worker", workerFor(l)
	c.Sentence = fmt.Sprintf("Step %s is ready, but %s.", s.Key, lackOf(missing, l))
	if _, known := t.rd.cfg.Catalogue.Get(l.Tool); missing == dispatch.MissingTool && !known {
		c.Next = "" // orch worker has no such tool either
	}
	return true
}

// lackOf says what the workers lack for the calls of a lane.
func lackOf(missing dispatch.Lack, l dispatch.Lane) string {
	switch {
	case missing == dispatch.MissingQueue:
		return "no worker serves queue " + l.Queue
	case missing == dispatch.MissingRoot:
		return "no worker of queue " + l.Queue + " works in " + l.Root + ", the root of the task"
	case l.Root == "":
		return "no worker of queue " + l.Queue + " has the tool " + l.Tool
	default:
		return "no worker of queue " + l.Queue + " that works in " + l.Root + " has the tool " + l.Tool
	}
}

// workerFor returns the command that starts a worker for the calls of a lane.
func workerFor(l dispatch.Lane) string {
	command := "orch worker --queue " + l.Queue
	if l.Root != "" {
		command += " --root " + shellWord(l.Root)
	}
	return command
}

// shellWord quotes a word for a shell if it has other characters than those of plain paths.
func shellWord(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=:./,@%+-"
	if strings.Trim(word, plain) == "" && word != "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
