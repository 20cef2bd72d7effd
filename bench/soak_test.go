package bench

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSlope(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		points []point
		want   float64
	}{
		"no point":     {nil, 0},
		"one point":    {[]point{{1, 80}}, 0},
		"flat":         {[]point{{0, 80}, {1, 80}, {2, 80}}, 0},
		"a line":       {[]point{{0, 80}, {0.5, 83}, {2, 92}}, 6},
		"falling":      {[]point{{0, 80}, {1, 79}}, -1},
		"noise on top": {[]point{{0, 81}, {1, 84}, {2, 91}, {3, 94}}, 4.6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.InDelta(t, test.want, slope(test.points), 1e-9)
		})
	}
}
