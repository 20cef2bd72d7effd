package forge_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// holding returns a file in the format of GitHub.
func (s *server) holding(path, content string) answer {
	return s.file("content-file", object{
		"path": path, "size": len(content), "sha": "3d21ec53a331a6f037a91c368710b99387d012c1", "encoding": "base64",
		"content": base64.StdEncoding.EncodeToString([]byte(content)) + "\n",
	})
}

// S3-004, S3-050 to S3-052.
func TestReadFile(t *testing.T) {
	t.Parallel()
	s := serve(t)
	read := tool(t, s.config(), "github.readFile")
	binary := "\xff\x00\xfe"
	for path, text := range map[string]string{"README.md": "# Über\r\n<&>\n", "a b/ü?#%41:c..d/x+y": "deep", "empty": ""} {
		s.on("GET /repos/o/r/contents/"+path, s.holding(path, text))
		out, err := call(t, read, in(object{"path": path}))
		require.NoError(t, err, path)
		assert.Equal(t, object{"content": text, "metadata": object{
			"path": path, "size": float64(len(text)), "sha": "3d21ec53a331a6f037a91c368710b99387d012c1", "encoding": "utf8", "type": "file",
		}}, out)
		seen := s.seen()
		require.Len(t, seen, 1)
		assert.True(t, strings.HasSuffix(seen[0], "?ref=main"), seen[0])
	}
	s.on("GET /repos/o/r/contents/bin", s.holding("bin", binary))
	_, err := call(t, read, in(object{"path": "bin"}))
	assert.Equal(t, "set encoding to base64", failed(t, err, fault.InvalidFormat, "", "encoding").Hint)
	out, err := call(t, read, in(object{"path": "bin", "encoding": "base64", "ref": "v1/x"}))
	require.NoError(t, err)
	assert.Equal(t, base64.StdEncoding.EncodeToString([]byte(binary)), out["content"])
	assert.Contains(t, s.seen()[1], "ref=v1%2Fx")
	assert.Equal(t, "Bearer "+secret, s.header.Get("Authorization"))
}

func TestReadWhatIsNoFile(t *testing.T) {
	t.Parallel()
	s := serve(t)
	read := tool(t, s.config(), "github.readFile")
	s.on("GET /repos/o/r/contents/link", s.file("content-symlink", object{"type": "symlink", "target": "../away", "path": "link"}))
	s.on("GET /repos/o/r/contents/sub", s.file("content-submodule", object{"type": "submodule", "submodule_git_url": "https://example.com/s.git"}))
	s.on("GET /repos/o/r/contents/dir", answer{status: http.StatusOK, body: []any{}})
	for path, want := range map[string][2]any{"link": {"symlink", "../away"}, "sub": {"submodule", "https://example.com/s.git"}} {
		out, err := call(t, read, in(object{"path": path}))
		require.NoError(t, err, path)
		metadata, ok := out["metadata"].(object)
		require.True(t, ok)
		assert.Equal(t, want, [2]any{metadata["type"], out["content"]})
	}
	_, err := call(t, read, in(object{"path": "dir"}))
	failed(t, err, fault.NotFound, "FILE_NOT_FOUND", "path")
}

// The largest file, one byte more, and invalid responses.
func TestReadFileBounds(t *testing.T) {
	t.Parallel()
	const largest = 512 << 10
	s := serve(t)
	read := tool(t, s.config(), "github.readFile")
	s.on("GET /repos/o/r/contents/largest", s.holding("largest", strings.Repeat("x", largest)))
	out, err := call(t, read, in(object{"path": "largest"}))
	require.NoError(t, err)
	assert.Len(t, out["content"], largest)
	for path, tc := range map[string]struct {
		a      answer
		code   fault.Code
		reason string
		field  string
	}{
		"larger":  {s.holding("larger", strings.Repeat("x", largest+1)), fault.ValidationError, "SIZE_LIMIT_EXCEEDED", "path"},
		"huge":    {s.file("content-file", object{"size": 5 << 20, "content": "", "encoding": "none"}), fault.ValidationError, "SIZE_LIMIT_EXCEEDED", "path"},
		"lies":    {s.file("content-file", object{"size": 1, "encoding": "base64", "content": strings.Repeat("eHh4", largest)}), fault.GithubError, "", ""},
		"no code": {s.file("content-file", object{"size": 1, "encoding": "base64", "content": "?"}), fault.GithubError, "", ""},
		"none":    {s.file("content-file", object{"size": 1, "encoding": "none", "content": ""}), fault.GithubError, "", ""},
		"page":    {answer{status: http.StatusOK, raw: "<html>" + secret}, fault.GithubError, "", ""},
		"endless": {answer{status: http.StatusOK, raw: strings.Repeat(" ", 9<<20)}, fault.GithubError, "", ""},
	} {
		s.on("GET /repos/o/r/contents/"+path, tc.a)
		_, err := call(t, read, in(object{"path": path}))
		failed(t, err, tc.code, tc.reason, tc.field)
	}
}

// S3-053: GitHub returns the same response for three kinds of missing resources.
func TestReadFileNotFound(t *testing.T) {
	t.Parallel()
	s := serve(t)
	read := tool(t, s.config(), "github.readFile")
	_, err := call(t, read, in(object{"path": "f"}))
	e := failed(t, err, fault.NotFound, "REPO_NOT_FOUND", "repo")
	assert.Contains(t, e.Hint, "github_token must permit reading it")
	assert.Equal(t, []string{"GET /repos/o/r/contents/f?ref=main", "GET /repos/o/r"}, s.seen())

	s.repository()
	_, err = call(t, read, in(object{"path": "f"}))
	failed(t, err, fault.NotFound, "FILE_NOT_FOUND", "path")
	for _, status := range []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity} {
		s.on("GET /repos/o/r/commits/no/such#x", s.problem(status))
		_, err = call(t, read, in(object{"path": "f", "ref": "no/such#x"}))
		e = failed(t, err, fault.NotFound, "REF_NOT_FOUND", "ref")
		assert.Equal(t, "its default branch is trunk", e.Hint)
	}
	s.on("GET /repos/o/r/commits/no", s.problem(http.StatusInternalServerError))
	_, err = call(t, read, in(object{"path": "f", "ref": "no"}))
	failed(t, err, fault.GithubError, "", "")
	s.on("GET /repos/o/r", s.problem(http.StatusForbidden))
	_, err = call(t, read, in(object{"path": "f"}))
	failed(t, err, fault.Forbidden, "ACCESS_DENIED", "")
}

// S3-071: public data can be read without a token.
func TestReadFileWithoutToken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	cfg := s.config()
	cfg.Token, cfg.URL = "", s.url+"/api/v3/"
	read := tool(t, cfg, "github.readFile")
	s.on("GET /repos/o/r/contents/f", s.holding("f", "x"))
	out, err := call(t, read, in(object{"path": "f"}))
	require.NoError(t, err)
	assert.Equal(t, "x", out["content"])
	assert.Empty(t, s.header.Values("Authorization"))
	_, err = call(t, read, in(object{"path": "g"}))
	assert.Contains(t, failed(t, err, fault.NotFound, "REPO_NOT_FOUND", "repo").Hint, "private repositories require github_token")
}
