package node_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
)

// narrow is a server of models that refuses requests of more than some bytes. In each of its first turns it reads a file.
type narrow struct {
	t    *testing.T
	cfg  node.Config
	most int
	// hold is closed by the first summary that is asked for, whose answer stalls; nil for none.
	hold chan struct{}

	mu                        sync.Mutex
	answered, refused, summed int
}

// longFile is the name of a file of 1 MiB.
const longFile = "long.txt"

func newNarrow(t *testing.T, wire string, most int) *narrow {
	t.Helper()
	s := &narrow{t: t, most: most}
	s.cfg = asking(t, modelstest.NewServer(t, s.answer), wire)
	line := strings.Repeat("0123456789 ", 93) + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(s.cfg.Root, longFile), []byte(strings.Repeat(line, 1<<10)), 0o600))
	return s
}

func (s *narrow) answer(r modelstest.Seen) modelstest.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(r.Body) > s.most {
		s.refused++
		return modelstest.Reply{Status: http.StatusBadRequest, Message: "the prompt is too long: maximum context length"}
	}
	reply := modelstest.Reply{}
	switch {
	case strings.Contains(string(r.Body), "Write a summary"):
		if s.summed++; s.summed == 1 && s.hold != nil {
			close(s.hold)
			return modelstest.Reply{Answer: says("lost"), Fault: modelstest.Stall}
		}
		reply.Answer = says("I have read the file.")
	case s.answered < 12:
		s.answered++
		reply.Answer = reads(filepath.Join(s.cfg.Root, longFile))
	default:
		reply.Answer = says("All is read.")
	}
	reply.Answer.Usage = models.Usage{Input: int64(len(r.Body) / 4), Output: 20}
	return reply
}

// counts returns how many requests were answered with a call, and how many were refused.
func (s *narrow) counts() (answered, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answered, s.refused
}

const narrowPlan = `
orch: v1
name: narrow
steps:
  - id: look
    agent: {model: test/x, prompt: "Read all.", tools: [FILE_READ], max_tokens: 1000, budget: {usd: 100}}
outputs:
  text: ${{ steps.look.output.text }}
`

// Requests that are too long for the model become shorter, whatever the results are. No refused request costs anything.
func TestAgentIsShorterThanItsModel(t *testing.T) {
	t.Parallel()
	for wire, most := range map[string]int{modelstest.OpenAI: 12_000, modelstest.Anthropic: 40_000, modelstest.Gemini: 200_000} {
		t.Run(wire, func(t *testing.T) {
			t.Parallel()
			s := newNarrow(t, wire, most)
			n := start(t, s.cfg)
			id := submit(t, n.API(), narrowPlan)
			r := result(t, n.API(), id)
			require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
			agent := replayed(t, n, id).Steps["look"].Agent
			_, refused := s.counts()
			assert.Equal(t, refused, agent.Refused)
			assert.Positive(t, refused)
			assert.Less(t, refused, 6)
			assert.Equal(t, 12, agent.Spent.Calls)
			assert.Zero(t, agent.Lost)
			talk, err := n.API().Conversation(t.Context(), api.ConversationRequest{ID: id, Limit: api.MaxTurns})
			require.NoError(t, err)
			states := map[api.TurnState]int{}
			for _, turn := range talk.Turns {
				states[turn.State]++
				assert.Zero(t, turn.Reserved)
			}
			assert.Equal(t, map[api.TurnState]int{api.TurnRefused: refused, api.TurnAnswered: talk.Total - refused}, states)
			assert.Positive(t, talk.Limits.Context.CompactAt)
			assert.Equal(t, 50+refused, talk.Limits.MaxTurns)
		})
	}
}

// A conversation with refused turns goes on after a restart, in a retry and in a fork.
func TestShortenedAgentGoesOn(t *testing.T) {
	t.Parallel()
	s := newNarrow(t, modelstest.OpenAI, 12_000)
	s.hold = make(chan struct{})
	n, err := node.Start(t.Context(), s.cfg)
	require.NoError(t, err)
	id := submit(t, n.API(), narrowPlan)
	<-s.hold
	stop, cancel := context.WithCancel(t.Context())
	cancel() // the call that runs gets no time to end
	_ = n.Stop(stop)
	n = start(t, s.cfg)
	r := result(t, n.API(), id)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	past := replayed(t, n, id).Steps["look"].Agent
	answered, before := s.counts()
	assert.Equal(t, before, past.Refused)
	assert.NotZero(t, past.Lost, "the summary that was lost")

	refused := 0
	for i, turn := range past.Turns {
		if turn.Refused != nil {
			refused = i + 1
		}
	}
	for _, at := range []int{refused, refused + 1, len(past.Turns)} {
		fork, err := n.API().Fork(t.Context(), api.ForkRequest{ID: id, At: "look.t" + strconv.Itoa(at)})
		require.NoError(t, err)
		assert.Equal(t, []api.ContinuedAgent{{Step: "look", Turn: at}}, fork.Continued)
		r := result(t, n.API(), fork.ID)
		require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
		agent := replayed(t, n, fork.ID).Steps["look"].Agent
		assert.Equal(t, past.Turns[:at-1], agent.Turns[:at-1])
	}
	calls, after := s.counts()
	assert.Equal(t, answered, calls)
	assert.Equal(t, before+1, after, "only the fork at the refused turn asks for it again")
	again := submit(t, n.API(), strings.ReplaceAll(narrowPlan, "test/x", `"replay:`+string(id)+`?strict"`))
	r = result(t, n.API(), again)
	require.Equal(t, statemachine.Done, r.State, "%v", r.Error)
	assert.Equal(t, past.Refused, replayed(t, n, again).Steps["look"].Agent.Refused)
	_, after = s.counts()
	assert.Equal(t, before+1, after, "a record asks nobody")
}

// A prompt that alone is too long ends with the error of the provider.
func TestPromptIsTooLong(t *testing.T) {
	t.Parallel()
	s := newNarrow(t, modelstest.OpenAI, 100)
	n := start(t, s.cfg)
	r := run(t, n.API(), narrowPlan)
	require.Equal(t, statemachine.Failed, r.State)
	assert.Equal(t, models.ReasonTooLong, r.Error.Reason)
	_, refused := s.counts()
	assert.Equal(t, 1, refused)
}
