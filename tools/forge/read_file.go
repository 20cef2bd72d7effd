package forge

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/go-github/v92/github"

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
		file, _, _, err := a.client.Repositories.GetContents(ctx, in.Owner, in.Repo, in.Path, &github.RepositoryContentGetOptions{Ref: in.Ref})
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
	repo, _, err := a.client.Repositories.Get(ctx, in.Owner, in.Repo)
	if err != nil {
		return a.apiError(err, now)
	}
	_, _, err = a.client.Repositories.GetCommit(ctx, in.Owner, in.Repo, segments(in.Ref), &github.ListOptions{PerPage: 1})
	switch status(err) {
	case http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity:
		return refNotFound(repo.GetDefaultBranch())
	}
	if err != nil {
		return a.apiError(err, now)
	}
	return fileNotFound("does not exist there")
}

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
func (in readFileIn) output(file *github.RepositoryContent) (readFileOut, error) {
	if file.GetSize() > maxFile {
		return readFileOut{}, fault.New(fault.ValidationError, "has %d bytes, more than the %d that can be read", file.GetSize(), maxFile).
			WithField("path").WithReason("SIZE_LIMIT_EXCEEDED").WithHint("clone the repository to read it")
	}
	content, err := contentOf(file)
	if err != nil || len(content) > maxFile {
		return readFileOut{}, fault.Wrap(fault.GithubError, err, "GitHub sent no readable content of the file")
	}
	out := readFileOut{Content: content, Metadata: fileMetadata{
		Path: file.GetPath(), Size: file.Size, SHA: file.GetSHA(), Encoding: in.Encoding, Type: file.GetType(),
	}}
	if in.Encoding == "base64" {
		out.Content = base64.StdEncoding.EncodeToString([]byte(content))
	} else if !utf8.ValidString(content) {
		return readFileOut{}, fault.New(fault.InvalidFormat, "the file is not UTF-8 text").WithField("encoding").WithHint("set encoding to base64")
	}
	return out, nil
}

// contentOf returns the content of an object: the bytes of a file, the target of a symbolic link, the URL of a
// submodule.
func contentOf(file *github.RepositoryContent) (string, error) {
	switch file.GetType() {
	case "symlink":
		return file.GetTarget(), nil
	case "submodule":
		return file.GetSubmoduleGitURL(), nil
	case "file":
		return file.GetContent()
	default:
		return "", fault.New(fault.GithubError, "the type of the object is unknown")
	}
}
