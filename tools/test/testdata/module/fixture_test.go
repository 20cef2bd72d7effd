package fixture

import "testing"

func TestPass(t *testing.T) {
	if Sign(3) != 1 {
		t.Error("3 is positive")
	}
}

func TestFail(t *testing.T) {
	t.Errorf("Sign(-3) = %d, want 1", Sign(-3))
}

func TestSkip(t *testing.T) { t.Skip("not today") }
