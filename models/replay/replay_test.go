package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/replay"
)

const task = "TASK_01JD0000000000000000000000"

func TestParseName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]replay.Name{
		"replay:" + task:                         {Task: task},
		"replay:" + task + "/review":             {Task: task, Step: "review"},
		"replay:" + task + "/each[2].review":     {Task: task, Step: "each[2].review"},
		"replay:" + task + "?strict":             {Task: task, Strict: true},
		"replay:" + task + "/look?strict":        {Task: task, Step: "look", Strict: true},
		"replay:" + strings.ToLower(task):        {},
		"replay:":                                {},
		"replay:TASK_1":                          {},
		"replay:" + task + "/":                   {},
		"replay:" + task + "/?strict":            {},
		"replay:" + task + "?loose":              {},
		"replay:" + task + "/review?loose":       {},
		"replay:" + task + "/a/b":                {},
		"replay:" + task + "/review?strict?":     {},
		"replay:" + task + "?strict/review":      {},
		"replay:" + task + "/review?strict ":     {},
		"replay: " + task:                        {},
		"replay:" + task + "/review/?strict":     {},
		"replay:" + task + "?strict?strict":      {},
		"replay:TASK_01JD000000000000000000000U": {},
	} {
		got, err := replay.ParseName(name)
		if want == (replay.Name{}) {
			assert.Equal(t, fault.ValidationError, fault.CodeOf(err), name)
			assert.NotEmpty(t, fault.From(err).Hint)
			continue
		}
		require.NoError(t, err, name)
		assert.Equal(t, want, got)
		assert.Equal(t, name, got.String())
	}
}

// request returns the request of turn 2: after the prompt, the model has called a tool with this result.
func request(result string) models.Request {
	return models.Request{System: "Be brief.", Tools: []models.Tool{{Name: "READ", Schema: json.RawMessage(`{}`)}}, Messages: []models.Message{
		{Role: models.User, Parts: []models.Part{{Text: "Look."}}},
		{Role: models.Model, Parts: []models.Part{{Call: &models.Call{ID: "c1", Name: "READ", Args: "{}"}}}},
		{Role: models.User, Parts: []models.Part{{Result: &models.Result{ID: "c1", Name: "READ", Content: result}}}},
	}}
}

// provider returns a provider with one recorded turn, 2, and the turns that were read.
func provider(strict bool) (p *replay.Provider, read *[]int) {
	read = new([]int)
	asked := request("milk")
	asked.Messages = asked.Messages[2:]
	answer := models.Answer{Message: models.Message{Role: models.Model, Parts: []models.Part{{Text: "Buy milk."}, {Call: &models.Call{ID: "c2", Name: "READ"}}}}, Stop: models.StopCalls, Usage: models.Usage{Input: 7, Output: 3}}
	return &replay.Provider{Strict: strict, Read: func(_ context.Context, turn int) (replay.Turn, error) {
		*read = append(*read, turn)
		if turn != 2 {
			return replay.Turn{}, errors.New("the record ends")
		}
		return replay.Turn{Asked: asked, Answer: answer}, nil
	}}, read
}

func TestStream(t *testing.T) {
	t.Parallel()
	p, read := provider(true)
	var heard []models.Delta
	answer, err := p.Stream(t.Context(), request("milk"), func(d models.Delta) { heard = append(heard, d) })
	require.NoError(t, err)
	assert.Equal(t, []models.Delta{{Text: "Buy milk."}, {Call: "READ"}}, heard)
	assert.Equal(t, models.Usage{Input: 7, Output: 3}, answer.Usage)
	assert.Empty(t, answer.Differs)
	assert.Equal(t, []int{2}, *read)
	r := request("milk")
	r.Number = 7 // the messages of earlier turns were summarized
	_, err = p.Stream(t.Context(), r, nil)
	require.EqualError(t, err, "the record ends")
	assert.Equal(t, []int{2, 7}, *read)
}

// A request that differs is answered all the same, with what differs; a strict provider refuses it.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(r *models.Request)
		want   []string
	}{
		"ids":          {func(r *models.Request) { r.Messages[2].Parts[0].Result.ID = "other" }, nil},
		"earlier ones": {func(r *models.Request) { r.Messages[0].Parts[0].Text = "See." }, nil},
		"limits":       {func(r *models.Request) { r.MaxTokens, r.Model, r.Key = 1, "m", "k" }, nil},
		"instructions": {func(r *models.Request) { r.System = "" }, []string{"the instructions"}},
		"a tool":       {func(r *models.Request) { r.Tools[0].Description = "reads" }, []string{"the tools"}},
		"no tool":      {func(r *models.Request) { r.Tools = nil }, []string{"the tools"}},
		"no calls":     {func(r *models.Request) { r.NoCalls = true }, []string{"whether it may call tools"}},
		"the form":     {func(r *models.Request) { r.Result = json.RawMessage(`{}`) }, []string{"the form of the result"}},
		"the result":   {func(r *models.Request) { r.Messages[2].Parts[0].Result.Content = "tea" }, []string{"the result of READ"}},
		"its failure":  {func(r *models.Request) { r.Messages[2].Parts[0].Result.Failed = true }, []string{"the result of READ"}},
		"no result":    {func(r *models.Request) { r.Messages[2].Parts = nil }, []string{"the result of READ"}},
		"more":         {func(r *models.Request) { r.Messages[2].Parts = append(r.Messages[2].Parts, models.Part{Text: "x"}) }, []string{"the text that is added"}},
		"all": {
			func(r *models.Request) { r.System, r.Tools = "", nil; r.Messages[2].Parts[0].Result.Content = "" },
			[]string{"the instructions", "the tools", "the result of READ"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := request("milk")
			test.change(&r)
			p, _ := provider(false)
			answer, err := p.Stream(t.Context(), r, nil)
			require.NoError(t, err)
			assert.Equal(t, test.want, answer.Differs)
			strict, _ := provider(true)
			_, err = strict.Stream(t.Context(), r, nil)
			if test.want == nil {
				require.NoError(t, err)
				return
			}
			assert.Equal(t, replay.ReasonDiffers, fault.From(err).Reason)
			assert.ErrorContains(t, err, "turn 2 differs from the recorded one in "+strings.Join(test.want, ", "))
		})
	}
}

func TestDifferentPrompt(t *testing.T) {
	t.Parallel()
	first := models.Request{Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: "Look."}}}}}
	p := &replay.Provider{Read: func(context.Context, int) (replay.Turn, error) { return replay.Turn{Asked: first}, nil }}
	answer, err := p.Stream(t.Context(), models.Request{Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: "See."}}}}}, nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"the prompt"}, answer.Differs)
}
