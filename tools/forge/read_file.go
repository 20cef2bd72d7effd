package forge

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

// maxFile is the size in bytes of the largest file. Even if JSON needs six bytes for each byte, it fits into the
// output of a call.
const maxFile = 512 << 10

type readFileIn struct {
	Owner    string `json:"owner" jsonschema:"Repository owner (user or organization)" pattern:"^[a-zA-Z0-9-]+$"`
	Repo     string `json:"repo" jsonschema:"Repository name" pattern:"^[a-zA-Z0-9-_.]+$"`
	Path     string `json:"path" jsonschema:"File path within repository"`
	Ref      string `json:"ref,omitempty" jsonschema:"Branch, tag, or commit SHA" default:"main"`
	Encoding string `json:"encoding,omitempty" jsonschema:"Response encoding for file content" enum:"utf8,base64" default:"utf8"`
}

type readFileOut struct {
	Content  string       `json:"content" jsonschema:"File content (text or base64)"`
	Metadata fileMetadata `json:"metadata" jsonschema:"File that the content belongs to"`
}

type fileMetadata struct {
	Path     string `json:"path,omitempty" jsonschema:"Path of the file; for a symbolic link, the path of its target"`
	Size     *int   `json:"size,omitempty" jsonschema:"Size of the file in bytes"`
	SHA      string `json:"sha,omitempty" jsonschema:"Name of the object in git"`
	Encoding string `json:"encoding,omitempty" jsonschema:"Encoding of the content: utf8 or base64"`
	Type     string `json:"type,omitempty" jsonschema:"The content of a symlink is its target, that of a submodule its URL" enum:"file,symlink,submodule"`
}

// sentFile is an object of a repository as GitHub sends it.
type sentFile struct {
	Type         string `json:"type"`
	Encoding     string `json:"encoding"`
	Size         *int   `json:"size"`
	Path         string `json:"path"`
	Content      string `json:"content"`
	SHA          string `json:"sha"`
	Target       string `json:"target"`
	SubmoduleURL string `json:"submodule_git_url"`
}

// readFile is github.readFile (S3-050 to S3-053).
func readFile(a *api) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "github.readFile",
		Title:       "Read a file on GitHub",
		Purpose:     "Read a file from a GitHub repository",
		Conditions:  []string{"Any task state", "A private repository needs github_token", "Files of 512 KiB at most"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors: []string{
			"FILE_NOT_FOUND", "REPO_NOT_FOUND", "REF_NOT_FOUND", "ACCESS_DENIED", "RATE_LIMIT", "INVALID_FORMAT", "VALIDATION_ERROR",
			"GITHUB_ERROR", "TIMEOUT", "TOOL_UNAVAILABLE",
		},
	}, func(ctx context.Context, env *tools.Env, in readFileIn) (readFileOut, error) {
		if err := a.checkRead(in); err != nil {
			return readFileOut{}, err
		}
		ctx, cancel := withCallTimeout(ctx)
		defer cancel()
		file, err := a.contents(ctx, in)
		switch {
		case status(err) == http.StatusNotFound:
			return readFileOut{}, a.notFoundError(ctx, in, env.Now())
		case err != nil:
			return readFileOut{}, a.apiError(err, env.Now())
		case file == nil:
			return readFileOut{}, fileNotFound("is a directory")
		}
		return in.output(file)
	})
}

func (a *api) checkRead(in readFileIn) error {
	if err := checkRepository(in.Owner, in.Repo); err != nil {
		return err
	}
	if err := checkPath(in.Path); err != nil {
		return err
	}
	if err := checkRef("ref", in.Ref); err != nil {
		return err
	}
	return a.checkConfig()
}

// notFoundError returns the error for a file that was not found. It makes requests to determine whether the repository,
// the ref or the path does not exist, because GitHub returns the same response for all of them (S3-053).
func (a *api) notFoundError(ctx context.Context, in readFileIn, now time.Time) error {
	defaultBranch, err := a.repository(ctx, in.Owner, in.Repo)
	if err != nil {
		return a.apiError(err, now)
	}
	var commit struct{}
	err = a.rest.get(ctx, repoPath(in.Owner, in.Repo)+"/commits/"+segments(in.Ref), url.Values{"per_page": {"1"}}, acceptJSON, &commit)
	switch status(err) {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return refNotFound(defaultBranch)
	}
	if err != nil {
		return a.apiError(err, now)
	}
	return fileNotFound("does not exist there")
}

// contents requests an object of a repository. It returns nil for a folder.
func (a *api) contents(ctx context.Context, in readFileIn) (*sentFile, error) {
	var raw json.RawMessage
	path := repoPath(in.Owner, in.Repo) + "/contents/" + segments(in.Path)
	if err := a.rest.get(ctx, path, url.Values{"ref": {in.Ref}}, acceptJSON, &raw); err != nil || bytes.HasPrefix(raw, []byte("[")) {
		return nil, err
	}
	var file sentFile
	err := json.Unmarshal(raw, &file)
	return &file, err
}

// repository returns the default branch of a repository, or the error of its request.
func (a *api) repository(ctx context.Context, owner, repo string) (defaultBranch string, err error) {
	var answer struct {
		DefaultBranch string `json:"default_branch"`
	}
	err = a.rest.get(ctx, repoPath(owner, repo), nil, acceptJSON, &answer)
	return answer.DefaultBranch, err
}

// repoPath returns the path of a repository below the base of the API.
func repoPath(owner, repo string) string { return "repos/" + owner + "/" + repo }

// segments escapes a name with slashes for a URL.
func segments(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return strings.Join(parts, "/")
}

func fileNotFound(why string) *fault.Error {
	return fault.New(fault.NotFound, "%s", why).WithField("path").WithReason("FILE_NOT_FOUND")
}

func refNotFound(defaultBranch string) *fault.Error {
	e := fault.New(fault.NotFound, "is not a branch, tag or commit of the repository").WithField("ref").WithReason("REF_NOT_FOUND")
	if checkRef("ref", defaultBranch) == nil {
		return e.WithHint("its default branch is %s", defaultBranch)
	}
	return e
}

// output returns the content in the requested encoding.
func (in readFileIn) output(file *sentFile) (readFileOut, error) {
	if file.Size != nil && *file.Size > maxFile {
		return readFileOut{}, fault.New(fault.ValidationError, "has %d bytes, more than the %d that can be read", *file.Size, maxFile).
			WithField("path").WithReason("SIZE_LIMIT_EXCEEDED").WithHint("clone the repository to read it")
	}
	content, err := file.content()
	if err != nil || len(content) > maxFile {
		return readFileOut{}, fault.Wrap(fault.GithubError, err, "GitHub sent no readable content of the file")
	}
	out := readFileOut{Content: content, Metadata: fileMetadata{
		Path: file.Path, Size: file.Size, SHA: file.SHA, Encoding: in.Encoding, Type: file.Type,
	}}
	if in.Encoding == "base64" {
		out.Content = base64.StdEncoding.EncodeToString([]byte(content))
	} else if !utf8.ValidString(content) {
		return readFileOut{}, fault.New(fault.InvalidFormat, "the file is not UTF-8 text").WithField("encoding").WithHint("set encoding to base64")
	}
	return out, nil
}

// content returns the content of an object: the bytes of a file, the target of a symbolic link, the URL of a submodule.
func (f *sentFile) content() (string, error) {
	switch f.Type {
	case "symlink":
		return f.Target, nil
	case "submodule":
		return f.SubmoduleURL, nil
	case "file":
		return f.decode()
	default:
		return "", fault.New(fault.GithubError, "the type of the object is unknown")
	}
}

func (f *sentFile) decode() (string, error) {
	switch f.Encoding {
	case "base64":
		content, err := base64.StdEncoding.DecodeString(f.Content) // the decoder passes over line breaks
		return string(content), err
	case "":
		return f.Content, nil
	default:
		return "", fault.New(fault.GithubError, "the encoding of the content is unknown")
	}
}
