package main

import (
	"bytes"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orch-dev/orch/mcp/oauthtest"
)

// browser0 opens a URL like a person who agrees to everything.
func browser0(address string) int {
	resp, err := http.Get(address)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 1
	}
	_ = resp.Body.Close() // the page is for people
	return 0
}

// guardedKey is the context key for the server of a story.
type guardedKey struct{}

// startGuarded is the command "guarded" of a story: it sets GUARDED to the URL of an MCP server that requires a login. "guarded
// expire" expires its access tokens, "guarded revoke" revokes the logins.
func startGuarded(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		s := oauthtest.Start()
		ts.Defer(s.Close)
		ts.Setenv("GUARDED", s.URL+"/mcp")
		guards(ts)[0] = s
		return
	}
	switch s := guards(ts)[0]; args[0] {
	case "expire":
		s.Expire()
	case "revoke":
		s.Revoke()
	default:
		ts.Fatalf("unknown: %v", args)
	}
}

func guards(ts *testscript.TestScript) []*oauthtest.Server {
	all, ok := ts.Value(guardedKey{}).([]*oauthtest.Server)
	if !ok {
		ts.Fatalf("this story has no server")
	}
	return all
}

// secretless is the command "secretless FILE…" of a story. It checks that no secret of the server is in these files, nor in a
// file of the story except those of logins.
func secretless(ts *testscript.TestScript, _ bool, args []string) {
	secrets := guards(ts)[0].Secrets()
	if len(secrets) == 0 {
		ts.Fatalf("there is no secret")
	}
	var texts bytes.Buffer
	for _, name := range args {
		texts.WriteString(ts.ReadFile(name))
	}
	ts.Check(filepath.WalkDir(ts.MkAbs("."), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(path, "mcp-oauth") {
			return err
		}
		content, err := os.ReadFile(path)
		texts.Write(content)
		return err
	}))
	for _, secret := range secrets {
		if bytes.Contains(texts.Bytes(), []byte(secret)) {
			ts.Fatalf("%s is told", secret)
		}
	}
}
