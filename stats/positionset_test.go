package stats

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Marks behave as a set of positions does, whatever the order, and their stored form is the same set.
func TestMarks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var m positionSet
		model := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				seq := rapid.Uint64Range(1, 400).Draw(t, "seq")
				assert.Equal(t, !model[seq], m.add(seq))
				model[seq] = true
			},
			"fill": func(t *rapid.T) {
				upTo := rapid.Uint64Range(0, 500).Draw(t, "up to")
				m.fill(upTo)
				for seq := uint64(1); seq <= upTo; seq++ {
					model[seq] = true
				}
			},
			"store": func(t *rapid.T) {
				data, err := json.Marshal(m)
				require.NoError(t, err)
				m = positionSet{}
				require.NoError(t, json.Unmarshal(data, &m))
			},
			"": func(t *rapid.T) {
				newest, missing := uint64(0), uint64(1)
				for seq := range model {
					newest = max(newest, seq)
				}
				for model[missing] {
					missing++
				}
				assert.Equal(t, newest, m.newest())
				assert.Equal(t, missing, m.missing())
				for seq := uint64(1); seq < 600; seq++ {
					require.Equal(t, model[seq], m.has(seq), "%d", seq)
				}
			},
		})
	})
}
