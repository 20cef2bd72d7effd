package server

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
)

// Different selections have different keys, whatever their patterns contain.
func TestSelectionKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]Selection{}
	for _, s := range []Selection{
		{},
		{ReadOnly: true},
		{Tools: []string{""}},
		{Tools: []string{"", ""}},
		{Tools: []string{"a"}},
		{Tools: []string{"a"}, ReadOnly: true},
		{Tools: []string{"a", "b"}},
		{Tools: []string{"b", "a"}},
		{Tools: []string{"ab"}},
		{Tools: []string{`a""b`}},
		{Tools: []string{"a\nb"}},
		{Tools: []string{"a b"}},
		{Tools: []string{`a","b`}},
		{Tools: []string{"\xff"}},
		{Tools: []string{`\xff`}},
		{Tools: []string{"\ufffd"}},
	} {
		other, found := seen[s.key()]
		assert.False(t, found, "%+v and %+v", s, other)
		seen[s.key()] = s
		assert.Equal(t, s.key(), Selection{append([]string(nil), s.Tools...), s.ReadOnly}.key())
	}
}

// A page is encoded again if anything has changed that it was made of.
func TestPagesAreOfTheirState(t *testing.T) {
	t.Parallel()
	one, other := &mcp.Tool{Name: "a"}, &mcp.Tool{Name: "a"}
	now, later := make(chan struct{}), make(chan struct{})
	var pages toolPages
	encoded := 0
	get := func(key pageKey, state toolPage) {
		pages.get(key, state, func() []json.RawMessage { encoded++; return nil })
	}
	for i, step := range []struct {
		name    string
		key     pageKey
		state   toolPage
		forget  bool
		encodes bool
	}{
		{"the first time", pageKey{}, toolPage{tools: []*mcp.Tool{one}, catalogue: now}, false, true},
		{"the same", pageKey{}, toolPage{tools: []*mcp.Tool{one}, catalogue: now}, false, false},
		{"another definition", pageKey{}, toolPage{tools: []*mcp.Tool{other}, catalogue: now}, false, true},
		{"another catalogue", pageKey{}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"after the tools have changed", pageKey{}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, true, true},
		{"another profile", pageKey{profile: "x"}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"another generation", pageKey{modern: true}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"an agent", pageKey{agent: true}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"another selection", pageKey{show: "x"}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"another page", pageKey{next: "x"}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, true},
		{"the first page again", pageKey{}, toolPage{tools: []*mcp.Tool{other}, catalogue: later}, false, false},
	} {
		if step.forget {
			pages.forget()
		}
		before := encoded
		get(step.key, step.state)
		assert.Equal(t, step.encodes, encoded > before, "%d: %s", i, step.name)
	}
}

// A page that was made while the tools changed is not used afterwards.
func TestPagesMadeDuringAChange(t *testing.T) {
	t.Parallel()
	var pages toolPages
	page := func(text string, during func()) string {
		return string(pages.get(pageKey{}, toolPage{}, func() []json.RawMessage { during(); return []json.RawMessage{mustJSON(text)} }))
	}
	assert.Equal(t, `["old"]`, page("old", pages.forget))
	assert.Equal(t, `["new"]`, page("new", func() {}))
	assert.Equal(t, `["new"]`, page("newer", func() {}))
}

// However many selections there are, the cache keeps its limit.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 0, "large": 100 << 10, "the largest": MaxToolPages - 1024, "too large": MaxToolPages} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var pages toolPages
			text := []json.RawMessage{mustJSON(strings.Repeat("x", size))}
			for i := range 2 * (MaxToolPages/(size+512) + 1) {
				got := pages.get(pageKey{show: strconv.Itoa(i)}, toolPage{}, func() []json.RawMessage { return text })
				assert.Equal(t, size+len(`[""]`), len(got)) //nolint:testifylint // not to print the page
			}
			sum := 0
			for _, p := range pages.byKey {
				sum += p.cost()
			}
			assert.Equal(t, sum, pages.size)
			assert.LessOrEqual(t, sum, MaxToolPages)
			assert.Equal(t, size < MaxToolPages, sum > MaxToolPages/2)
		})
	}
}
