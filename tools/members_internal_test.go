package tools

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Members and texts are those that package json finds, in all arguments that the check accepts as JSON.
func FuzzMembers(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `[]`, `null`, `""`, `{"":""}`, `{"a":1}`, `{ "a" : 1 , "b" : [ 1 , {"c":"}"} ] , "c":null}`, `{"a":1,"a":2}`, `{"a\"b":"\\","\u0061":"\ud800"}`,
		`{"a":{"b":{"c":[[]]}},"d":-1.5e3,"e":true,"f":false}`, "{\n\t\"é\":\"é\u2028\"\r\n}", `{"a":"x\"y","b":"{[,:"}`, `{"a":"` + "\x7f" + `"}`,
		`{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":[`, `{:1}`, `{"a":}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := appendMembers(nil, json.RawMessage(text)) // must not panic, whatever the text is
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) || text[0] != '{' {
			return
		}
		var want map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		got := map[string]json.RawMessage{}
		for _, m := range found {
			got[string(m.name)] = m.value
		}
		require.Equal(t, want, got)
		for name, value := range want {
			require.Equal(t, value, Member(json.RawMessage(text), name))
			var plain string
			isText := json.Unmarshal(value, &plain) == nil
			shown, ok := Text(value)
			require.Equal(t, isText, ok, "%s", value)
			require.Equal(t, plain, shown)
		}
	})
}

func TestMemberThatIsAbsent(t *testing.T) {
	t.Parallel()
	for _, object := range []string{`{}`, `{"b":"a"}`, `["a"]`, `null`, ``} {
		assert.Nil(t, Member(json.RawMessage(object), "a"), object)
	}
	_, ok := Text(nil)
	assert.False(t, ok)
}
