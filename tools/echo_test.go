package tools_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

type paintIn struct {
	Colour string `json:"colour" jsonschema:"Which one" enum:"red,green"`
}

// An error shows no part of a secret, even when it truncates a value inside of one.
func TestRefusalsRepeatNoSecret(t *testing.T) {
	t.Parallel()
	paint := tools.Define(tools.Spec{
		Name: "PAINT", Purpose: "Paint it", Effect: tools.Read, Gate: tools.AnyState, Approval: tools.NoApproval,
	}, func(_ context.Context, _ *tools.Env, in paintIn) (paintIn, error) { return in, nil })
	begin := "gh" + "p_4paQ9o0F4w08wza"
	token := begin + "iZk7p3fjE0ZH6lIN1s14i"
	for _, value := range []string{token, "key" + token, "a/path_" + token} {
		for _, args := range []map[string]string{{"colour": value}, {"colour": "red", value: "x"}} {
			given, err := json.Marshal(args)
			require.NoError(t, err)
			_, refusal := paint.Check(given)
			require.True(t, fault.Has(refusal, fault.ValidationError), "%v", refusal)
			assert.NotContains(t, fault.From(refusal).Error(), begin)
			assert.Contains(t, refusal.Error(), "[REDACTED:github_token")
		}
	}
}
