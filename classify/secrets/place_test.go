package secrets_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/classify/secrets"
)

// TestPlaces checks that references to secrets are not findings, and that values that only begin like one are.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"DB_PASSWORD":"env:DB_PASSWORD"}`, `{"API_KEY":"env:STRIPE_2"}`, `{"TOKEN":"file:/home/u/.config/app/token-2"}`, "TOKEN: file:/run/secrets/token", `{"TOKEN":"file:/tmp/build3187263512/k8s-7f9c2d/token"}`} {
		assert.Empty(t, secrets.Find([]byte(text)), text)
	}
	for _, text := range []string{`{"DB_PASSWORD":"env:tR7#kq9!xW2"}`, `{"DB_PASSWORD":"file:tR7#kq9!xW2"}`, `{"DB_PASSWORD":"file:/a#tR7kq9xW2LmPz8vB"}`} {
		assert.NotEmpty(t, secrets.Find([]byte(text)), text)
	}
}
