package rest_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/httpapi/rest"
)

// Unknown fields are refused wherever they are: a misspelt filter would choose everything.
func TestUnknownFieldsOfDefinitions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, c := range []struct{ path, body, field string }{
		{"/destinations", `{"name":"a","definition":{"url":"https://a","whn":"x"}}`, "definition.whn"},
		{"/hooks", `{"name":"a","definition":{"provider":"github","signal":{"tsk":"x"}}}`, "definition.signal.tsk"},
		{"/schedules", `{"name":"a","definition":{"interval":[{"every":"1h"},{"evry":"1h"}]}}`, "definition.interval.1.evry"},
		{"/destinations", `{"name":"a","definition":[]}`, "definition"},
	} {
		got := s.as(rest.Operator, http.MethodPost, c.path, c.body)
		require.Equal(t, http.StatusBadRequest, got.Status, "%s: %s", c.body, got.Body)
		code, field := got.problem(t)
		assert.Equal(t, "VALIDATION_ERROR", code, c.body)
		assert.Equal(t, c.field, field, c.body)
	}
}
