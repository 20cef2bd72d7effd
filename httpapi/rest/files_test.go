package rest_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/httpapi/rest"
)

func (f *fakeAPI) Files(_ context.Context, r api.FilesRequest) (api.FilesReply, error) {
	f.record("files", r)
	return api.FilesReply{Task: r.ID, Files: []api.FileView{}}, nil
}

func (f *fakeAPI) File(_ context.Context, r api.FileRequest) (api.FileReply, error) {
	f.record("file", r)
	return api.FileReply{Task: r.ID, Path: r.Path}, nil
}

func (f *fakeAPI) Value(_ context.Context, r api.ValueRequest) (api.ValueReply, error) {
	f.record("value", r)
	return api.ValueReply{Ref: r.Ref}, nil
}

// fileCalls returns a request for each route of files and values.
func fileCalls() []call {
	bot := "/tasks/" + string(botsTask)
	return []call{
		{http.MethodGet, bot + "/trace?limit=1", "", 200, 404, 200, 200},
		{http.MethodGet, bot + "/files?path=outputs&limit=1", "", 200, 404, 200, 200},
		{http.MethodGet, bot + "/files/outputs/report.md?offset=1", "", 200, 404, 200, 200},
		{http.MethodGet, bot + "/values/sha256-1?offset=1", "", 200, 404, 200, 200},
	}
}

// The path of a file may be written with slashes or as one name, as clients do that are generated from the document. Nothing is
// cleaned on the way to the API, which refuses what leads elsewhere.
func TestPathsOfFiles(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	bot := "/tasks/" + string(botsTask)
	for path, want := range map[string]string{
		"outputs/report.md":             "outputs/report.md",
		"outputs%2Freport.md":           "outputs/report.md",
		"a%20b%3F%23%252F":              "a b?#%2F",
		"%2E%2E/%2e%2e/etc/passwd":      "../../etc/passwd",
		"..%2Foutputs":                  "../outputs",
		"a%00b":                         "a\x00b",
		"%3Cimg%20src=x%3E%E2%80%AEtxt": "<img src=x>\u202etxt",
	} {
		got := s.as(rest.Operator, http.MethodGet, bot+"/files/"+path+"?offset=5&limit=7", "")
		assert.Equal(t, http.StatusOK, got.Status, "%s: %s", path, got.Body)
		assert.Equal(t, api.FileRequest{ID: botsTask, Path: want, Offset: 5, Limit: 7}, s.api.last("file"), path)
	}
	s.as(rest.Agent, http.MethodGet, bot+"/files?path=outputs&limit=3&cursor=bWFpbi5nbw", "")
	assert.Equal(t, api.FilesRequest{ID: botsTask, Path: "outputs", Limit: 3, Cursor: "bWFpbi5nbw"}, s.api.last("files"))
	got := s.as(rest.Operator, http.MethodGet, bot+"/files/a?offset=-1", "")
	assert.Equal(t, http.StatusBadRequest, got.Status)
}
