package shop

import "testing"

func TestTotal(t *testing.T) {
	for number, want := range map[int]int{0: 0, 1: 100, 2: 200, 3: 200, 4: 300, 6: 400} {
		if got := Total([]Item{{Name: "tea", Price: 100, Number: number}}); got != want {
			t.Errorf("%d pieces cost %d, not %d", number, got, want)
		}
	}
}
