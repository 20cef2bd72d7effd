package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/memlog"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/work"
)

// A call with an invalid question fails, and is not retried.
func TestRefusedQuestions(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	params := func(text string) work.Question {
		return work.Question{Key: "k", Kind: events.Elicitation, Params: json.RawMessage(text)}
	}
	many := make([]work.Question, 17)
	for i := range many {
		many[i] = elicit(fmt.Sprint("k", i))
	}
	for name, asked := range map[string][]work.Question{
		"twice":     {elicit("k"), elicit("k")},
		"no key":    {elicit("")},
		"kind":      {{Key: "k", Kind: "wish"}},
		"many":      many,
		"large":     {params(`{"message":"` + strings.Repeat("x", 64<<10) + `"}`)},
		"list":      {params(`[]`)},
		"reference": {params(`{"$blob":"x"}`)},
		"message":   {params(`{"requestedSchema":{"type":"object","properties":{}}}`)},
		"schema":    {params(`{"message":"m"}`)},
		"nested":    {params(`{"message":"m","requestedSchema":{"type":"object","properties":{"a":{"type":"object"}}}}`)},
		"mode":      {params(`{"message":"m","mode":"voice"}`)},
		"url":       {params(`{"message":"m","mode":"url","url":"https://a.example"}`)},
		"messages":  {{Key: "k", Kind: events.Sampling, Params: json.RawMessage(`{"maxTokens":1}`)}},
	} {
		id := n.submit(`{orch: v1, steps: [{id: a, tool: WRITE, retry: {max_attempts: 3, initial: 1ms}}]}`)
		c := n.begun("w")
		require.NoError(t, n.inquire("w", c, asked...), name)
		require.NoError(t, n.inquire("w", c, asked...), "a repeated report")
		assert.Equal(t, statemachine.Failed, n.result(id).State, name)
		assert.Contains(t, []fault.Code{fault.ValidationError, fault.RequiredField}, n.step(id, "a").Error.Code, name)
		assert.Contains(t, n.step(id, "a").Error.Field, "questions", name)
	}
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), params(`{"message":"m","mode":"url","url":"https://a.example","elicitationId":"e"}`)))
	assert.Len(t, n.view(id).Questions, 1)
}

// An invalid answer changes nothing.
func TestRefusedAnswers(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(oneWrite)
	require.NoError(t, n.inquire("w", n.begun("w"), elicit("a"), work.Question{Key: "b", Kind: events.Sampling, Params: json.RawMessage(`{"messages":[{}]}`)}, work.Question{Key: "c", Kind: events.Roots}))
	byKey := map[string]string{}
	for _, q := range n.view(id).Questions {
		byKey[q.Key] = q.ID
	}
	for response, field := range map[string]string{
		`{"action":"accept"}`:                      "content",
		`{"action":"accept","content":{"name":1}}`: "content.name",
		`{"action":"decline","content":{}}`:        "content",
		`{"action":"maybe"}`:                       "action",
		`[]`:                                       "response",
		`null`:                                     "response",
		``:                                         "response",
		`{"action":"` + strings.Repeat("x", 257<<10) + `"}`: "response",
	} {
		_, err := n.answer(byKey["a"], response)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), "%.40s", response)
		assert.Equal(t, field, fault.From(err).Field, "%.40s", response)
	}
	for _, response := range []string{`{}`, `{"role":"assistant","content":{}}`, `{"role":"assistant","model":"m"}`, `{"role":"god","model":"m","content":{}}`} {
		_, err := n.answer(byKey["b"], response)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), response)
	}
	for _, response := range []string{`{}`, `{"roots":[{"uri":"https://a"}]}`} {
		_, err := n.answer(byKey["c"], response)
		assert.Equal(t, fault.ValidationError, fault.CodeOf(err), response)
	}
	_, err := n.answer("ASK_x", ada)
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	_, err = n.answer(byKey["a"][:len(byKey["a"])-8]+"AAAAAAAA", ada)
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = n.Answer(n.ctx(), api.AnswerRequest{ID: "TASK_01JD0000000000000000000000", Question: byKey["a"], Declined: true})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	assert.Len(t, n.view(id).Questions, 3)
}

// The answer is limited, however many and however large the questions are.
func TestManyQuestions(t *testing.T) {
	t.Parallel()
	n := start(t, memlog.New(memlog.Config{}))
	id := n.submit(`{orch: v1, steps: [{id: e, for_each: 1..100, max_parallel: 100, do: [{id: a, tool: WRITE}]}]}`)
	q := elicit("who")
	q.Params = json.RawMessage(strings.ReplaceAll(nameForm, "Who?", strings.Repeat("x", 60<<10)))
	for range 100 {
		require.NoError(t, n.inquire("w", n.begun("w"), q))
	}
	list, err := n.Questions(n.ctx(), api.QuestionsRequest{})
	require.NoError(t, err)
	for _, views := range [][]api.QuestionView{list.Questions, n.view(id).Questions} {
		require.Len(t, views, 100)
		data, err := json.Marshal(views)
		require.NoError(t, err)
		assert.Less(t, len(data), 3<<20)
		assert.Contains(t, string(views[99].Params), "$omitted")
	}
	one, err := n.Questions(n.ctx(), api.QuestionsRequest{ID: list.Questions[99].ID})
	require.NoError(t, err)
	assert.JSONEq(t, string(q.Params), string(one.Questions[0].Params))
}
