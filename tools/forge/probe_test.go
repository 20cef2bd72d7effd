package forge_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools/forge"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	assert.False(t, forge.NewProbe(forge.Config{}).Configured(), "who has not set up GitHub is not asked about it")
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/rate_limit", r.URL.Path)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"message":"verbatim words","resources":{"core":{"limit":60,"remaining":7,"reset":1800000000}}}`))
	}))
	t.Cleanup(server.Close)
	p := forge.NewProbe(forge.Config{URL: server.URL})
	assert.True(t, p.Configured())
	rate, err := p.Ask(t.Context())
	require.NoError(t, err)
	assert.Equal(t, forge.Rate{Limit: 60, Remaining: 7, Reset: time.Unix(1800000000, 0).UTC()}, rate)
	status = http.StatusInternalServerError
	_, err = p.Ask(t.Context())
	require.ErrorIs(t, err, &fault.Error{Code: fault.GithubError})
	assert.NotContains(t, fault.From(err).Message, "verbatim")
}
