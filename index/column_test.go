package index_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/index"
)

// limits returns numbers around the limits of the widths of a column, on both sides of zero, in a random order.
func limits(r *rand.Rand) []int64 {
	numbers := []int64{0, math.MinInt64, math.MaxInt64}
	for width := range 8 {
		limit := int64(1) << (8*width + 7)
		for _, n := range []int64{limit, 2 * limit, -limit, -2 * limit} {
			numbers = append(numbers, n-1, n, n+1)
		}
	}
	r.Shuffle(len(numbers), func(i, j int) { numbers[i], numbers[j] = numbers[j], numbers[i] })
	return numbers
}

// A column has the numbers that were set, and becomes wider each time it is written anew.
func TestColumnLikeAnArray(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		numbers := limits(r)
		numbers = numbers[:1+r.IntN(len(numbers))]
		x, want, width := index.NewColumn(), []int64{}, 0
		for n := range 2000 {
			row := r.IntN(min(len(want)+1, 4096))
			number := numbers[r.IntN(min(n/100+1, len(numbers)))] // first all are equal
			if row == len(want) {
				want = append(want, number)
			}
			want[row] = number
			x.Set(row, number)
			require.Equal(t, number, x.At(row))
			if len(want) > 1 {
				require.GreaterOrEqual(t, x.Width(), width)
				width = x.Width()
			}
			if n%50 == 0 {
				for row, number := range want {
					require.Equal(t, number, x.At(row), "seed %d, change %d, row %d", seed, n, row)
				}
			}
		}
		require.LessOrEqual(t, width, 8)
	}
}

// Equal numbers take no memory, and numbers that are close to each other little.
func TestWidthOfAColumn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		number func(row int) int64
		width  int
	}{
		"equal":              {func(int) int64 { return math.MaxInt64 }, 0},
		"one differs":        {func(row int) int64 { return int64(row / 4095) }, 1},
		"a byte":             {func(row int) int64 { return -1_000_000 + int64(row%200) }, 1},
		"two bytes, growing": {func(row int) int64 { return 1<<40 + int64(row) }, 2},
		"two bytes, falling": {func(row int) int64 { return -int64(row) }, 2},
		"all bits":           {func(row int) int64 { return math.MinInt64 + int64(row%2)*math.MaxInt64 }, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := index.NewColumn()
			for row := range 4096 {
				x.Set(row, test.number(row))
			}
			for row := range 4096 {
				require.Equal(t, test.number(row), x.At(row))
			}
			require.Equal(t, test.width, x.Width())
		})
	}
}

// Columns beside each other in memory do not change each other's numbers.
func TestColumnsBesideEachOther(t *testing.T) {
	t.Parallel()
	const columns, rows = 40, 4096
	r := rand.New(rand.NewPCG(1, 1))
	var all [columns]*index.Column
	var want [columns][rows]int64
	all[0] = index.NewColumn()
	for i := 1; i < columns; i++ {
		all[i] = all[0].Beside()
	}
	for range 3 {
		for row := range rows {
			for i, x := range all {
				want[i][row] = r.Int64() >> r.IntN(64)
				x.Set(row, want[i][row])
			}
		}
		for i, x := range all {
			for row := range rows {
				require.Equal(t, want[i][row], x.At(row))
			}
			if i%2 == 0 {
				x.Clear()
				want[i] = [rows]int64{}
			}
		}
	}
}
