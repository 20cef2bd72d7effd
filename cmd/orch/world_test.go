package main

import (
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// world is the outside of a node in a story: a web page, a search service, a webhook, a package registry and git's own server,
// with the password hunter2 where one is needed. It writes the requests that it has answered to seen.txt.
type world struct {
	mu   sync.Mutex
	file string
	git  http.Handler
}

// startWorld is the command "world" of a story: it sets WEB to the URL of the server and WEBHOST to its host and port. Bare
// repositories in the folder git are served below WEB/git/.
func startWorld(ts *testscript.TestScript, _ bool, _ []string) {
	core, err := exec.Command("git", "--exec-path").Output()
	ts.Check(err)
	w := &world{file: ts.MkAbs("seen.txt"), git: &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + ts.MkAbs("git"), "GIT_HTTP_EXPORT_ALL=1"},
	}}
	s := httptest.NewServer(w)
	ts.Defer(s.Close)
	ts.Setenv("WEB", s.URL)
	ts.Setenv("WEBHOST", strings.TrimPrefix(s.URL, "http://"))
}

func (w *world) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(http.MaxBytesReader(out, r.Body, 1<<20)) // a broken body is an empty one
	_, password, _ := r.BasicAuth()
	switch path := r.URL.Path; {
	case path == "/page":
		_, _ = io.WriteString(out, "a private page")
	case path == "/echo":
		out.Header().Set("X-Seen", r.Header.Get("X-Seen"))
		r.Header.Set("X-Length", strconv.Itoa(len(r.Header.Get("X-Seen"))))
		_ = r.Header.Write(out)
	case path == "/search" && r.Header.Get("Authorization") == "Bearer hunter2":
		_, _ = io.WriteString(out, `{"results": [{"title": "Found it", "url": "https://example.com/it", "content": "here"}]}`)
	case path == "/github/repos/o/r/contents/f" && r.Header.Get("Authorization") == "Bearer hunter2":
		_, _ = io.WriteString(out, `{"type": "file", "path": "f", "size": 2, "encoding": "base64", "content": "aGk=", "sha": "1"}`)
	case path == "/github/repos/o/r/issues" && r.Header.Get("Authorization") == "Bearer hunter2":
		out.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(out, `{"number": 7, "id": 8, "state": "open", "html_url": "https://github.example/o/r/issues/7"}`)
	case path == "/hook/hunter2":
		out.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(path, "/git/") && password == "hunter2":
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		w.git.ServeHTTP(out, r)
	case strings.HasPrefix(path, "/git/"), path == "/search":
		out.Header().Set("WWW-Authenticate", `Basic realm="world"`)
		out.WriteHeader(http.StatusUnauthorized)
	default:
		out.WriteHeader(http.StatusNotFound)
	}
	w.note(r.Method + " " + r.URL.Path + " " + strings.ToValidUTF8(string(body), ""))
}

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := os.OpenFile(w.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the story misses the line
	}
	_, _ = f.WriteString(line + "\n")
	_ = f.Close()
}
