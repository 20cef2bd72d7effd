package fault_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/fault"
)

func TestClip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"", 0, ""}, {"aé", 2, "a…"}, {"aéb", 3, "aé…"}} {
		assert.Equal(t, c.want, fault.Clip(c.text, c.most), "%q", c.text)
	}
}
