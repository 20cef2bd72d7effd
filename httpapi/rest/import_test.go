package rest_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/httpapi/rest"
)

const fileType = "application/octet-stream"

// A file of several parts arrives as it was sent, in the name of the client.
func TestImport(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := strings.Repeat("0123456789abcdef", 2*api.ImportPart/16) + "end"
	got := s.as(rest.Operator, http.MethodPost, "/import?key=k", file, "Content-Type", fileType)
	require.Equal(t, http.StatusOK, got.Status, got.Body)
	assert.JSONEq(t, `{"received":1048579,"done":true,"tasks":[{"id":"`+string(adasTask)+`","name":"","state":"","rev":0}]}`, got.Body)
	assert.True(t, bytes.Equal([]byte(file), s.api.file))
	last, ok := s.api.last("import").(api.ImportRequest)
	require.True(t, ok)
	assert.Equal(t, []any{"k", "user:ada", int64(len(file)), got.Header.Get("X-Request-Id")}, []any{last.Key, last.Actor, last.Size, last.File})
}

func TestImportRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, c := range map[string]struct {
		path, body, kind string
		status           int
		field            string
	}{
		"JSON":              {"/import", "{}", "application/json", 415, "Content-Type"},
		"a form":            {"/import", "x", "application/x-www-form-urlencoded", 415, "Content-Type"},
		"too large":         {"/import", strings.Repeat("x", 3<<20+1), fileType, 413, "size"},
		"unknown parameter": {"/import?actor=user:eve", "x", fileType, 400, "actor"},
	} {
		got := s.as(rest.Operator, http.MethodPost, c.path, c.body, "Content-Type", c.kind)
		assert.Equal(t, c.status, got.Status, name)
		_, field := got.problem(t)
		assert.Equal(t, c.field, field, name)
	}
	assert.Empty(t, s.api.file)
}

// The node must know the size of a file before it arrives.
func TestImportOfUnknownSize(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.web.URL+rest.Prefix+"/import", io.MultiReader(strings.NewReader("x")))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer operator")
	r.Header.Set("Content-Type", fileType)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, got.Body.Close())
	assert.Equal(t, http.StatusLengthRequired, got.StatusCode)
}
