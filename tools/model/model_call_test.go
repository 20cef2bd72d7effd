package model

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/tools"
)

// failing is a node whose model m/first gives an answer up, and whose model m/next answers.
type failing struct {
	pieces []models.Delta
	err    models.Error
}

func (f failing) Request(context.Context, events.TaskID, models.CallArgs) (models.Request, []string, int, error) {
	return models.Request{}, []string{"m/first", "m/next"}, 0, nil
}

func (f failing) Provider(_ events.TaskID, model string) (models.Provider, string, error) {
	if model == "m/next" {
		return says{}, model, nil
	}
	return f, model, nil
}

func (f failing) Stream(_ context.Context, _ models.Request, hear func(models.Delta)) (models.Answer, error) {
	for _, d := range f.pieces {
		hear(d)
	}
	return models.Answer{}, &f.err
}

type says struct{}

func (says) Stream(context.Context, models.Request, func(models.Delta)) (models.Answer, error) {
	return models.Answer{ID: "next"}, nil
}

// An answer that is given up after it has begun may be billed, whatever the reason is: no other model is asked before that is in the
// history. One that has not begun costs nothing, and the next model is asked.
func TestAnswerThatIsGivenUp(t *testing.T) {
	t.Parallel()
	env := &tools.Env{Now: time.Now, Output: func([]byte) {}}
	begun := map[string][]models.Delta{"text": {{Text: "x"}}, "call": {{Call: "FILE_READ"}}, "reasoning": {{}}}
	for kind, want := range map[models.Kind]*fault.Error{
		models.Overloaded: {Code: fault.NetworkError}, models.RateLimited: {Code: fault.NetworkError}, models.Invalid: {Code: fault.NetworkError},
		models.Unauthorized: {Code: fault.NetworkError}, models.TooLong: {Code: fault.ValidationError, Reason: models.ReasonOverrun},
		models.TooLarge: {Code: fault.ValidationError, Reason: models.ReasonTooLarge},
	} {
		for name, pieces := range begun {
			node := failing{pieces, models.Error{Kind: kind, Message: "gone"}}
			_, err := Config{Node: func() Node { return node }}.call(t.Context(), env, models.CallArgs{})
			require.Error(t, err, "%s %s", kind, name)
			assert.Equal(t, [2]string{string(want.Code), want.Reason}, [2]string{string(fault.From(err).Code), fault.From(err).Reason}, "%s %s", kind, name)
		}
		if kind != models.TooLarge {
			node := failing{nil, models.Error{Kind: kind, Message: "gone"}}
			called, err := Config{Node: func() Node { return node }}.call(t.Context(), env, models.CallArgs{})
			require.NoError(t, err, kind)
			assert.Equal(t, "next", called.Answer.ID)
		}
	}
}
