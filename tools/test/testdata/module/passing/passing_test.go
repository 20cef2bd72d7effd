package passing

import "testing"

func TestHalf(t *testing.T) {
	t.Run("even", func(t *testing.T) {
		if Half(4) != 2 {
			t.Error("half of 4")
		}
	})
}
