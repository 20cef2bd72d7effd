package script_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/script"
)

const review = `
turns:
  - expect: review
    text: I will read the file.
    calls:
      - tool: FILE_READ
        args: {file_path: /w/shop.go, lines: [1, 2.5, null, true], date: 2026-11-27}
      - {tool: NOTE, id: mine, args: '{"text": '}
    usage: {input: 1200, cache_read: 900, cache_write: 100, output: 40}
  - expect: /^package (shop|store)\b/
    text: It adds the prices.
  - error: {kind: rate_limited, after: 2s, message: slow down}
  - error: {kind: overloaded}
  - {text: Half an, stop: length}
  - {stop: refused}
`

func open(tb testing.TB, source string) *script.Provider {
	tb.Helper()
	p, err := script.New(strings.NewReader(source))
	require.NoError(tb, err)
	return p
}

// asked returns a request whose conversation has answers of the model, and ends with these parts.
func asked(answers int, parts ...models.Part) models.Request {
	r := models.Request{Model: "m"}
	for range answers {
		r.Messages = append(r.Messages,
			models.Message{Role: models.User, Parts: []models.Part{{Text: "go on"}}},
			models.Message{Role: models.Model, Parts: []models.Part{{Text: "well"}}})
	}
	r.Messages = append(r.Messages, models.Message{Role: models.User, Parts: parts})
	return r
}

// answer returns the answer to r with the deltas.
func answer(tb testing.TB, p models.Provider, r models.Request) (a models.Answer, heard []models.Delta) {
	tb.Helper()
	a, err := p.Stream(tb.Context(), r, func(d models.Delta) { heard = append(heard, d) })
	require.NoError(tb, err)
	return a, heard
}

func TestTurnWithCalls(t *testing.T) {
	t.Parallel()
	p := open(t, review)
	a, heard := answer(t, p, asked(0, models.Part{Text: "Please review it."}))
	assert.Equal(t, models.Answer{
		Message: models.Message{Role: models.Model, Parts: []models.Part{
			{Text: "I will read the file."},
			{Call: &models.Call{ID: "call_1_1", Name: "FILE_READ", Args: `{"date":"2026-11-27","file_path":"/w/shop.go","lines":[1,2.5,null,true]}`}},
			{Call: &models.Call{ID: "mine", Name: "NOTE", Args: `{"text": `}},
		}},
		Stop: models.StopCalls, Model: "m",
		Usage: models.Usage{Input: 1200, CacheRead: 900, CacheWrite: 100, Output: 40},
	}, a)
	assert.Equal(t, []models.Delta{
		{Text: "I"}, {Text: " will"}, {Text: " read"}, {Text: " the"}, {Text: " file."}, {Call: "FILE_READ"}, {Call: "NOTE"},
	}, heard)
	again, err := p.Stream(t.Context(), asked(0, models.Part{Text: "Please review it."}), nil)
	require.NoError(t, err)
	assert.Equal(t, a, again)
}

func TestTurns(t *testing.T) {
	t.Parallel()
	p := open(t, review)
	a, _ := answer(t, p, asked(1, models.Part{Result: &models.Result{Content: "package shop\n"}}))
	assert.Equal(t, models.StopEnd, a.Stop)
	assert.Positive(t, a.Usage.Input)
	assert.Positive(t, a.Usage.Output)
	a, _ = answer(t, p, asked(4))
	assert.Equal(t, models.StopLength, a.Stop)
	a, heard := answer(t, p, asked(5))
	assert.Equal(t, models.StopRefused, a.Stop)
	assert.Empty(t, heard)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	p := open(t, review)
	for name, test := range map[string]struct {
		request models.Request
		want    models.Error
	}{
		"scripted":         {asked(2), models.Error{Kind: models.RateLimited, After: 2 * time.Second, Message: "slow down"}},
		"scripted, short":  {asked(3), models.Error{Kind: models.Overloaded, Message: "the script says overloaded"}},
		"unexpected":       {asked(0, models.Part{Text: "hello"}), models.Error{Kind: models.Invalid, Message: `turn 1 of the script (line 3) expects "review", but the last message is "hello"`}},
		"unexpected match": {asked(1, models.Part{Text: "a package shop"}), models.Error{Kind: models.Invalid, Message: `turn 2 of the script (line 10) expects "/^package (shop|store)\\b/", but the last message is "a package shop"`}},
		"no turn left":     {asked(6), models.Error{Kind: models.Invalid, Message: "the script has 6 turns, and turn 7 is asked for"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := p.Stream(t.Context(), test.request, nil)
			var got *models.Error
			require.ErrorAs(t, err, &got)
			assert.Equal(t, test.want, *got)
		})
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := open(t, "turns: [{text: late, delay: 2s}]")
		start := time.Now()
		_, err := p.Stream(t.Context(), asked(0), nil)
		require.NoError(t, err)
		assert.Equal(t, 2*time.Second, time.Since(start))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Stream(ctx, asked(0), nil)
		var got *models.Error
		require.ErrorAs(t, err, &got)
		assert.Equal(t, models.Transport, got.Kind)
	})
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]string{
		{"", "the script is empty: it needs the field turns"},
		{"turns: [", "line 1: did not find expected node content"},
		{"a: 1\n---\nb: 1", "the script has a second document"},
		{"- text: a", "line 1: must be an object with the fields turns"},
		{"turn: []", `line 1: has no field "turn"; the fields are turns`},
		{"turns: []", "line 1: the script needs turns"},
		{"turns: a", "line 1: turns: must be a list"},
		{"turns:\n- {txt: a}", `line 2: turns[0]: has no field "txt"; the fields are calls, delay, error, expect, stop, text, usage`},
		{"turns:\n- text: a\n  text: b", `line 3: turns[0]: has the field "text" twice`},
		{"turns:\n- {}", "line 2: turns[0]: needs text, calls, stop or error"},
		{"turns:\n- text: [a]", "line 2: turns[0].text: must be a text"},
		{"turns:\n- text:", "line 2: turns[0].text: must be a text"},
		{"turns:\n- {text: a, stop: done}", "line 2: turns[0].stop: must be one of end, calls, length, refused, other"},
		{"turns:\n- {text: a, stop: calls}", "line 2: turns[0]: stop is calls, but there are none"},
		{"turns:\n- {text: a, delay: 1}", "line 2: turns[0].delay: must be a duration such as 200ms, from 0 to 1h0m0s"},
		{"turns:\n- {text: a, delay: 2h}", "line 2: turns[0].delay: must be a duration such as 200ms, from 0 to 1h0m0s"},
		{"turns:\n- {text: a, expect: /(/}", "line 2: turns[0].expect: error parsing regexp: missing closing ): `(`"},
		{"turns:\n- {text: a, usage: {input: -1}}", "line 2: turns[0].usage.input: must be a number of tokens, 0 or more"},
		{"turns:\n- {text: a, error: {kind: invalid}}", "line 2: turns[0]: a turn with an error has no text, calls, usage or stop"},
		{"turns:\n- error: {after: 1s}", "line 2: turns[0].error: needs kind"},
		{"turns:\n- error: {kind: bad}", "line 2: turns[0].error.kind: must be one of rate_limited, overloaded, unreachable, transport, unauthorized, too_long, too_large, invalid"},
		{"turns:\n- calls:\n  - {args: {}}", "line 3: turns[0].calls[0]: needs tool, the name of a tool with 1 to 64 letters, digits, _ and -"},
		{"turns:\n- calls:\n  - {tool: A B}", "line 3: turns[0].calls[0]: needs tool, the name of a tool with 1 to 64 letters, digits, _ and -"},
		{"turns:\n- calls:\n  - {tool: A, args: [1]}", "line 3: turns[0].calls[0].args: must be an object, or a string"},
		{"turns:\n- calls:\n  - {tool: A, args: {x: .inf}}", "line 3: turns[0].calls[0].args.x: is no number of JSON"},
		{"turns:\n- calls:\n  - {tool: A, args: {x: {a: 1, a: 2}}}", `line 3: turns[0].calls[0].args.x: has the field "a" twice`},
		{"turns:\n- calls:\n  - {tool: A, args: {x: &x 1, y: *x}}", "line 3: turns[0].calls[0].args.y: must not be an alias"},
		{"turns: [" + strings.Repeat("{text: a},", 1001) + "]", "line 1: turns: has more than 1000 elements"},
		{strings.Repeat(" ", 1<<20) + "turns: []", "the script has more than 1048576 bytes"},
	} {
		source, want := test[0], test[1]
		_, err := script.New(strings.NewReader(source))
		if assert.Error(t, err, source) {
			assert.Equal(t, want, err.Error(), source)
		}
	}
}

func TestNewReportsTheReader(t *testing.T) {
	t.Parallel()
	broken := errors.New("no file")
	_, err := script.New(failing{broken})
	assert.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzNew(f *testing.F) {
	f.Add(review)
	f.Add(`{"turns": [{"text": "a"}]}`)
	f.Fuzz(func(t *testing.T, source string) {
		p, err := script.New(strings.NewReader(source))
		if err != nil {
			assert.NotEmpty(t, err.Error())
			return
		}
		_, err = p.Stream(t.Context(), asked(1_000), nil)
		assert.Error(t, err)
	})
}
