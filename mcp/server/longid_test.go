package server

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIDOfLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ beginning, end, want string }{
		"first":                 {`{"id":1,"result":{"text":"much`, `much"}}`, `1`},
		"behind short fields":   {` { "jsonrpc" : "2.0", "x": {"id": 2}, "id" : "a\"b" , "result":"much`, `much"}`, `"a\"b"`},
		"last":                  {`{"result":"much`, `much", "id": "x" }`, `"x"`},
		"before the version":    {`{"result":"much`, `much","id":-3,"jsonrpc":"2.0"}`, `-3`},
		"of an inner object":    {`{"result":{"text":"much`, `much","id":3}}`, ``},
		"in a text":             {`{"result":"much`, `much,\"id\":3}"}`, ``},
		"no id":                 {`{"id":{"a":1},"result":"much`, `much","id":3}`, ``},
		"null":                  {`{"id":null,"result":"much`, `much"}`, ``},
		"longer than the edges": {`{"id":"much`, `much"}`, ``},
		"no object":             {`[{"id":1`, `,"id":1}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, string(idOfLong([]byte(test.beginning), []byte(test.end))))
		})
	}
}

// Whatever a line has, what is found is an id: a text or a number.
func FuzzIDOfLong(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":"much`), []byte(`much"}`))
	f.Add([]byte(`{"result":"much`), []byte(`much","id":"x","jsonrpc":"2.0"}`))
	f.Fuzz(func(t *testing.T, beginning, end []byte) {
		id := idOfLong(beginning, end)
		if id != nil && (!json.Valid(id) || !isID(id)) {
			t.Fatalf("%q", id)
		}
	})
}
