package firebase_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/toolstest"
)

type object = map[string]any

// S3-001 to S3-003, S3-020, S3-021, S3-030, S3-034, S3-040, S3-041, S3-048: names and schemas are those of the
// specification. They say more about fields that have no description there, and they are closed.
func TestSchemasAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	var names []string
	for _, tool := range firebase.Tools(firebase.Config{}) {
		name := tool.Spec().Name
		names = append(names, name)
		toolstest.Specified(t, tool, "testdata/seed003.json")
	}
	assert.Equal(t, []string{"firebase.read", "firebase.write", "firebase.subscribe", "firebase.unsubscribe"}, names)
}
