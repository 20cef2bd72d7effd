package server_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/mcp/server"
)

// late is an API that reads a task for a relay, and returns only when it may.
type late struct {
	api.API

	looked, may chan struct{}
}

// Result implements api.API.
func (l *late) Result(ctx context.Context, r api.ResultRequest) (api.ResultReply, error) {
	reply, err := l.API.Result(ctx, r)
	if !r.SizeOnly {
		return reply, err
	}
	select {
	case l.looked <- struct{}{}:
		<-l.may
	default:
	}
	return reply, err
}

// A question that was answered while the task was read is not asked again because of the older state.
func TestAnsweredQuestionsAreNotPutAgain(t *testing.T) {
	t.Parallel()
	s := newStand(t, kindsAsked()[0])
	owner := &late{s.n.owner, make(chan struct{}), make(chan struct{})}
	s.web = s.n.web(t, s.n.face(func(c *server.Config) { c.API, c.HTTP.Tokens = owner, tokens{} }))
	s.enter()
	standing, id := s.get(), s.task()
	s.poll(id)
	question := standing.question(s.asked)
	waits := make(chan *stream, 1)
	go func() { waits <- s.awaits(id) }() // it has no headers before the first message
	<-owner.looked
	s.reply(question)
	close(owner.may)
	m := (<-waits).next("result or question", func(m map[string]any) bool { return m["result"] != nil || m["method"] == s.asked.method })
	assert.NotNil(t, m["result"], "it was put again: %v", m)
}
