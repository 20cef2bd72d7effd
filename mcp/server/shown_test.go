package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/test/need"
)

func viewOf(tool string) resultView {
	return resultView{tool: tool, more: func(field string, from int) string { return fmt.Sprintf("; %s from %d", field, from) }}
}

// Short fields are in a line of JSON; a long text is below it under its name.
func TestShownResults(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{}`:                              `{}`,
		`{"b":1,"a":"x <y>"}`:             `{"b":1,"a":"x <y>"}`,
		`{"exit_code":0,"stdout":"a\nb"}`: "{\"exit_code\":0}\nstdout:\na\nb",
		`{"stdout":"a\n","stderr":"b\n"}`: "{}\nstdout:\na\n\nstderr:\nb\n",
		`[1,2]`:                           `[1,2]`,
	} {
		assert.Equal(t, want, viewOf("x").render(json.RawMessage(in)), in)
	}
}

// A long text loses its end, or its middle if it is output of a program; the line says what is missing and at which offset it continues.
func TestShownTextsAreCut(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("0123456789 äöü 日本\n", 10_000)
	read := viewOf("FILE_READ").render(mustJSON(map[string]any{"content": lines, "start_line": 5, "line_count": 10_000, "total_lines": 20_000}))
	line, content, _ := strings.Cut(read, "\ncontent:\n")
	shown := strings.Count(content, "\n")
	assert.True(t, strings.HasPrefix(lines, content) && strings.HasSuffix(content, "\n"))
	assert.Contains(t, line, fmt.Sprintf("read on with offset %d", 5+shown))
	assert.Greater(t, len(read), maxResult*3/4)

	said := viewOf("BASH_EXECUTE").render(mustJSON(map[string]any{"stdout": "first\n" + lines + "last\n", "exit_code": 1}))
	assert.True(t, strings.HasSuffix(said, "last\n"))
	assert.Contains(t, said, "stdout:\nfirst\n")
	head, _, _ := strings.Cut(strings.SplitN(said, "stdout:\n", 2)[1], "\n[…")
	assert.Contains(t, said, fmt.Sprintf("stdout from %d", len(head)+1))
}

// Lists keep all items with short texts, or the first.
func TestShownListsAreCut(t *testing.T) {
	t.Parallel()
	type item struct {
		Name    string `json:"name"`
		Message string `json:"message"`
	}
	var few, many []item
	for i := range 5000 {
		one := item{fmt.Sprintf("Test%04d", i), strings.Repeat("x", 4000)}
		if many = append(many, one); i < 20 {
			few = append(few, one)
		}
	}
	shown := viewOf("x").render(mustJSON(map[string]any{"failures": few}))
	assert.Contains(t, shown, "Test0019")
	assert.Contains(t, shown, "all 20 items, with long texts cut; failures from 0")
	shown = viewOf("x").render(mustJSON(map[string]any{"failures": many, "failed": 5000}))
	assert.Contains(t, shown, "Test0000")
	assert.Contains(t, shown, `"failed":5000`)
	assert.Regexp(t, `the first \d\d of 5000 items`, shown)
}

func checkShown(t *testing.T, raw json.RawMessage) {
	t.Helper()
	shown := viewOf("BASH_EXECUTE").render(raw)
	assert.LessOrEqual(t, len(shown), maxResult)
	assert.True(t, utf8.ValidString(shown))
}

// Whatever a result is, it stays below the limit.
func TestShownResultsAreBounded(t *testing.T) {
	t.Parallel()
	need.Long(t)
	wide := map[string]any{}
	for i := range 5000 {
		wide[fmt.Sprint("field", i)] = "some text"
	}
	deep := any(strings.Repeat("é", 40_000))
	for range 500 {
		deep = map[string]any{"in": deep, "at": []any{deep == nil}}
	}
	for _, value := range []any{
		wide,
		map[string]any{"wide": wide},
		map[string]any{"deep": deep},
		map[string]any{"list": []any{wide, deep}},
		map[string]any{"a": strings.Repeat("\x01\"\\", 30_000)},
		map[string]any{"list": make([]int, 100_000)},
		map[string]any{strings.Repeat("name", 10_000): 1},
		strings.Repeat("x", 100_000),
	} {
		checkShown(t, mustJSON(value))
	}
}

func FuzzShownResults(f *testing.F) {
	f.Add(`{"a":[1,2,{"b":"c"}],"text":"x\ny"}`, 40)
	f.Fuzz(func(t *testing.T, text string, times int) {
		if times < 0 || times > 50_000 || len(text)*times > 1<<20 || !json.Valid([]byte(text)) {
			t.Skip()
		}
		checkShown(t, json.RawMessage(text))
		checkShown(t, json.RawMessage(`{"again":[`+strings.TrimSuffix(strings.Repeat(text+",", times), ",")+`],"text":`+string(mustJSON(strings.Repeat(text, times)))+`}`))
	})
}

// The pieces of a result are all of it.
func TestPiecesOfResults(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("äöü 日本 no end of line ", 4000)
	output := mustJSON(map[string]any{"result": map[string]any{"stdout": text, "n": 7}})
	var got strings.Builder
	for next := new(int); next != nil; {
		got.WriteString(pieceFrom(t, output, "stdout", &next))
	}
	assert.Equal(t, text, got.String())
	from := 0
	whole := &from
	assert.JSONEq(t, `7`, pieceFrom(t, output, "n", &whole))
	for field, offset := range map[string]int{"stdin": 0, "n": 2, "": -1} {
		_, err := pieceOf(resultOf(output), &ownInput{Field: field, Offset: &offset})
		require.Error(t, err, field)
	}
}

func resultOf(output json.RawMessage) api.ResultReply {
	return api.ResultReply{ID: "TASK_X", State: statemachine.Done, Ended: true, Output: output}
}

func pieceFrom(t *testing.T, output json.RawMessage, field string, next **int) string {
	t.Helper()
	piece, err := pieceOf(resultOf(output), &ownInput{Field: field, Offset: *next})
	require.NoError(t, err)
	assert.LessOrEqual(t, len(viewOf("orch_result").render(mustJSON(piece))), maxResult)
	*next = piece.Next
	return piece.Text
}
