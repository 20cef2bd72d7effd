package netguard_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

func TestTransport(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		w.WriteHeader(http.StatusTeapot)
		reply(t, w, "%s %s", r.Method, body)
	})
	tooLong := errors.New("too long")
	for name, test := range map[string]struct {
		limit   int64
		tooLong error
		want    string
	}{
		"whole":  {100, tooLong, "POST text"},
		"cut":    {4, nil, "POST"},
		"failed": {4, tooLong, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := http.Client{Transport: netguard.Transport{Client: netguard.New(open()), Limit: test.limit, TooLong: test.tooLong}}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("text"))
			require.NoError(t, err)
			res, err := client.Do(req)
			if test.want == "" {
				require.ErrorIs(t, err, tooLong)
				return
			}
			require.NoError(t, err)
			defer res.Body.Close()
			assert.Equal(t, http.StatusTeapot, res.StatusCode)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			assert.Equal(t, test.want, string(body))
		})
	}
}

func TestTransportKeepsToPublicAddresses(t *testing.T) {
	t.Parallel()
	client := http.Client{Transport: netguard.Transport{Client: netguard.New(netguard.Config{}), Limit: 1}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", http.NoBody)
	require.NoError(t, err)
	res, err := client.Do(req)
	if err == nil {
		_ = res.Body.Close()
	}
	require.Error(t, err)
	assert.True(t, fault.Has(err, fault.Forbidden), "%v", err)
}
