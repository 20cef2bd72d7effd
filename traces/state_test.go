package traces_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/traces"
)

// members returns a tracestate with a number of members.
func members(n int) string {
	var all []string
	for i := range n {
		all = append(all, "k"+strconv.Itoa(i)+"=v")
	}
	return strings.Join(all, ",")
}

// The rules of https://www.w3.org/TR/trace-context/#tracestate-header.
func TestParseState(t *testing.T) {
	t.Parallel()
	long := "long=" + strings.Repeat("x", 200)
	for text, want := range map[string]string{
		"congo=t61rcWkgMzE":                     "congo=t61rcWkgMzE",
		" rojo=00f067aa0ba902b7 ,\t,congo=a b,": "rojo=00f067aa0ba902b7,congo=a b",
		"1a@nr=x,fw529a3039@dt=FfAB,a_-*/=!~":   "1a@nr=x,fw529a3039@dt=FfAB,a_-*/=!~",
		members(32):                             members(32),
		strings.Repeat("k", 256) + "=v":         strings.Repeat("k", 256) + "=v",
		long + ",b=" + strings.Repeat("y", 128) + ",c=" + strings.Repeat("z", 250):           long + ",b=" + strings.Repeat("y", 128),
		long + ",a=1,l2=" + strings.Repeat("y", 201) + ",b=2,l3=" + strings.Repeat("z", 201): long + ",a=1,l2=" + strings.Repeat("y", 201) + ",b=2",
		members(33): "", strings.Repeat("k", 257) + "=v": "", "a=" + strings.Repeat("v", 257): "",
		"": "", " , ": "", "a": "", "=b": "", "a=": "", "a=b=c": "", "A=b": "", "1=b": "", "a b=c": "", "a=b,a=c": "", "a=\x01": "", "a=ü": "", "ü=a": "",
		"a@=b": "", "@b=c": "", "a@b@c=d": "", "a@1=b": "", "a@" + strings.Repeat("b", 15) + "=c": "",
	} {
		got, ok := traces.ParseState(text)
		assert.Equal(t, want, got, text)
		assert.Equal(t, want != "", ok, text)
	}
	short := strings.ReplaceAll(members(32), "=v", "="+strings.Repeat("v", 20))
	got, ok := traces.ParseState(short)
	assert.True(t, ok)
	assert.LessOrEqual(t, len(got), 512)
	assert.True(t, strings.HasPrefix(short, got+","), "the newest members are the first")
}

func FuzzParseState(f *testing.F) {
	for _, seed := range []string{"", "a=b", "a@b=c,d=e", members(40), "a=" + strings.Repeat("x", 256) + ",b=" + strings.Repeat("x", 256) + ",c=d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		state, ok := traces.ParseState(text)
		if !ok {
			assert.Empty(t, state)
			return
		}
		assert.LessOrEqual(t, len(state), 513)
		again, ok := traces.ParseState(state)
		assert.True(t, ok)
		assert.Equal(t, state, again)
	})
}

func TestStateBelow(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a=b", traces.StateBelow(&events.Submitted{TraceState: "a=b"}))
	assert.Equal(t, "a=b", traces.StateBelow(&events.Submitted{Parent: &events.Parent{TraceState: "a=b"}}))
	assert.Empty(t, traces.StateBelow(&events.Submitted{}))
}
