package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// awkward is a large text with all that a JSON string escapes.
func awkward() string {
	every := make([]byte, 0x30)
	for i := range every {
		every[i] = byte(i)
	}
	return strings.Repeat(string(every)+`ä \ "quoted" 😀`+"\u2028", largeAnswer/32)
}

// An answer with large parts has the same content as the SDK would have sent.
func TestLargePartsArriveAsTheyWere(t *testing.T) {
	t.Parallel()
	data := mustJSON(object{"text": awkward(), "n": 1})
	indented := append(append(json.RawMessage("{\n\"a\": "), data...), "\n}"...)
	for name, result := range map[string]func() mcp.Result{
		"data and the same text": func() mcp.Result { return structured(data) },
		"data of many lines":     func() mcp.Result { return structured(indented) },
		"another text": func() mcp.Result {
			return &mcp.CallToolResult{StructuredContent: data, Content: []mcp.Content{&mcp.TextContent{Text: awkward()}, &mcp.TextContent{Text: "small"}}}
		},
		"a text alone": func() mcp.Result {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: awkward() + "\xff"}}}
		},
		"a resource": func() mcp.Result {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "orch://x", Text: awkward()}}}
		},
		"nothing large": func() mcp.Result { return structured(json.RawMessage(`{"a":1}`)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of, sent := newAnswerMemory().newReservation("ada"), httptest.NewRecorder()
			message := mustJSON(of.extract(result()))
			assert.Less(t, len(message), largeAnswer)
			late := &deferredWriter{ResponseWriter: sent, reservation: of}
			_, err := late.Write(message)
			require.NoError(t, err)
			late.send()
			assert.JSONEq(t, string(mustJSON(result())), sent.Body.String())
			assert.NotContains(t, sent.Body.String(), "\n", "an event is one line")
		})
	}
}

// A part of a value whose text is sent as well appears in both.
func TestAPartInsideOfAValue(t *testing.T) {
	t.Parallel()
	of := newAnswerMemory().newReservation("ada")
	want := object{"state": "DONE", "output": object{"text": awkward()}}
	got := object{"state": "DONE", "output": of.valueKey(mustJSON(want["output"]))}
	assert.JSONEq(t, string(mustJSON(want)), string(of.inline(mustJSON(got))))
	filled, err := io.ReadAll(of.fill(mustJSON(structured(mustJSON(got)))))
	require.NoError(t, err)
	var read struct {
		StructuredContent json.RawMessage
		Content           []struct{ Text string }
	}
	require.NoError(t, json.Unmarshal(filled, &read))
	assert.JSONEq(t, string(mustJSON(want)), string(read.StructuredContent))
	assert.JSONEq(t, string(mustJSON(want)), read.Content[0].Text)
}

// Only keys of parts are replaced, not similar text.
func TestNothingLooksLikeAPart(t *testing.T) {
	t.Parallel()
	of := newAnswerMemory().newReservation("ada")
	of.textKey(strings.Repeat("x", largeAnswer))
	assert.Nil(t, of.fill([]byte(`{"text":"orch-part-AAAAAAAAAAAAAAAAAAAAAAAAAA"}`)))
	assert.Nil(t, (&reservation{memory: newAnswerMemory()}).fill([]byte(of.parts[0].key)), "a part of another request")
}

func TestEscaperReadsInAnyPieces(t *testing.T) {
	t.Parallel()
	for _, from := range []io.Reader{
		quote(strings.NewReader(awkward())), iotest.OneByteReader(quote(strings.NewReader(awkward()))),
		quote(iotest.DataErrReader(strings.NewReader(awkward()))),
	} {
		var got string
		data, err := io.ReadAll(from)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, awkward(), got)
	}
	_, err := io.ReadAll(quote(iotest.ErrReader(io.ErrUnexpectedEOF)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A large answer releases the semaphore before it goes to the SDK: the SDK waits until earlier messages on the
// same stream, such as progress reports, were read.
func TestAnAnswerThatWaitsForItsStreamStopsNobody(t *testing.T) {
	t.Parallel()
	s := wire(newCore(Config{}.withDefaults()))
	of, req := s.memory.newReservation("ada"), httptest.NewRequest(http.MethodPost, "/", nil)
	defer s.memory.attach(req.Header, of)()
	answer := s.route(func(context.Context, string, mcp.Request) (mcp.Result, error) {
		assert.Len(t, s.memory.making, 1)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: strings.Repeat("x", largeAnswer)}}}, nil
	})
	result, err := answer(t.Context(), "resources/read", &mcp.ReadResourceRequest{
		Params: &mcp.ReadResourceParams{URI: resourcePrefix + "x"}, Extra: &mcp.RequestExtra{Header: req.Header},
	})
	require.NoError(t, err)
	assert.Empty(t, s.memory.making)
	assert.True(t, of.isLarge(), "its memory is held")
	assert.Less(t, len(mustJSON(result)), largeAnswer, "and encoded by nobody else")
}
