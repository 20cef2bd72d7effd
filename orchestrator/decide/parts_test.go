package decide

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// elements finds the same as a decoder.
func TestElements(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var items []json.RawMessage
		for range 1 + r.IntN(9) {
			raw, err := json.Marshal(randomValue(r, 3))
			require.NoError(t, err)
			items = append(items, raw)
		}
		from := r.IntN(len(items))
		count := 1 + r.IntN(len(items)-from)
		list := joined(items)
		require.True(t, json.Valid(list))
		assert.Equal(t, items[from:from+count], elements(list, from, count), "%s %d %d", list, from, count)
		assert.Len(t, elements(list, from, len(items)+1), len(items)-from)
	}
	for _, damaged := range []string{"", "[", "7", `["a`, `["\`, "[1,2"} {
		assert.Less(t, len(elements(json.RawMessage(damaged), 0, 3)), 3)
	}
}

// randomValue returns a value in which quotes, brackets and commas occur everywhere.
func randomValue(r *rand.Rand, depth int) any {
	switch n := r.IntN(7); {
	case n == 0:
		return r.IntN(100)
	case n == 1:
		return nil
	case n < 4 || depth == 0:
		return []string{`a,b]`, `"`, `\`, `\"`, `[{`, "", `x\\"]`}[r.IntN(7)]
	case n < 6:
		list := make([]any, r.IntN(3))
		for i := range list {
			list[i] = randomValue(r, depth-1)
		}
		return list
	default:
		return map[string]any{`k"]`: randomValue(r, depth-1), "z": randomValue(r, depth-1)}
	}
}
