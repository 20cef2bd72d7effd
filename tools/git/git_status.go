package git

import (
	"context"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/tools"
)

type gitStatusIn struct {
	RepositoryPath string `json:"repository_path,omitempty" jsonschema:"Absolute path of the git repository or a folder in it; default: the project of a session, else the workspace of the task"`
}

type gitStatusOut struct {
	Branch    string   `json:"branch" jsonschema:"Name of the current branch, also before its first commit; (detached) when there is none"`
	Commit    string   `json:"commit,omitempty" jsonschema:"Current commit; absent before the first one"`
	Upstream  string   `json:"upstream" jsonschema:"Upstream branch, empty when there is none"`
	Ahead     int      `json:"ahead" jsonschema:"Commits that the upstream branch lacks"`
	Behind    int      `json:"behind" jsonschema:"Commits that only the upstream branch has"`
	Staged    []change `json:"staged" jsonschema:"Changes that the next commit would contain"`
	Unstaged  []change `json:"unstaged" jsonschema:"Changes of tracked files that are not staged, and conflicts"`
	Untracked []string `json:"untracked" jsonschema:"Untracked files; a wholly untracked folder is one entry with a slash at its end"`
	Truncated bool     `json:"truncated" jsonschema:"The lists were cut at 1 MiB"`
}

type change struct {
	Path    string `json:"path" jsonschema:"Path relative to the top of the work tree"`
	Status  string `json:"status" jsonschema:"What happened to the file" enum:"modified,added,deleted,renamed,copied,type_changed,conflicted"`
	OldPath string `json:"old_path,omitempty" jsonschema:"Former path of a renamed or copied file"`
}

// gitStatus is GIT_STATUS (S0-100, S0-109).
var gitStatus = tools.Define(tools.Spec{
	Name:       "GIT_STATUS",
	Title:      "Show the state of a git work tree",
	Purpose:    "Show working tree status",
	Conditions: []string{"Any task state", "Repository must exist"},
	Effect:     tools.Read,
	Gate:       tools.AnyState,
	Approval:   tools.NoApproval,
	Paths:      []tools.Path{{Field: "repository_path", Access: tools.ReadPath}},
	Errors:     []string{"REPO_NOT_FOUND", "NOT_FOUND", "OUTSIDE_ROOT", "INVALID_PATH", "EXEC_FAILED"},
}, func(ctx context.Context, env *tools.Env, in gitStatusIn) (gitStatusOut, error) {
	repo, err := openRepository(ctx, env, in.RepositoryPath)
	if err != nil {
		return gitStatusOut{}, err
	}
	// Submodules are compared only by their commit: inspecting one would read its configuration.
	res, err := repo.run(ctx, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty", "--find-renames")
	if err != nil {
		return gitStatusOut{}, err
	}
	if res.ExitCode != 0 {
		return gitStatusOut{}, exitError("git status", res)
	}
	out := parseStatus(res.Stdout)
	out.Truncated = res.Truncated
	out.removeDenied(repo)
	return out, nil
})

// parseStatus parses the porcelain format 2 with NUL separators. It skips unknown and incomplete entries.
func parseStatus(text string) gitStatusOut {
	out := gitStatusOut{Staged: []change{}, Unstaged: []change{}, Untracked: []string{}}
	entries := strings.Split(text, "\x00")
	for i := 0; i < len(entries)-1; i++ { // the part after the last NUL is empty or incomplete
		kind, rest, _ := strings.Cut(entries[i], " ")
		switch kind {
		case "#":
			out.parseHeader(rest)
		case "1":
			out.parseChange(rest, 7, "")
		case "2":
			if i++; i < len(entries)-1 {
				out.parseChange(rest, 8, entries[i])
			}
		case "u":
			if fields := strings.SplitN(rest, " ", 10); len(fields) == 10 {
				out.Unstaged = append(out.Unstaged, change{Path: fields[9], Status: "conflicted"})
			}
		case "?":
			out.Untracked = append(out.Untracked, rest)
		}
	}
	return out
}

// parseHeader parses a header such as "branch.head main".
func (o *gitStatusOut) parseHeader(line string) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "branch.oid":
		if value != "(initial)" {
			o.Commit = value
		}
	case "branch.head":
		o.Branch = value
	case "branch.upstream":
		o.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		o.Ahead, o.Behind = parseCount(ahead), parseCount(behind)
	}
}

// parseCount parses +3 or -3 as 3; 0 if invalid.
func parseCount(s string) int {
	n, err := strconv.Atoi(strings.TrimLeft(s, "+-"))
	if err != nil {
		return 0
	}
	return n
}

// parseChange parses an entry: two status letters, for the index and the work tree, and the path after the given
// number of fields.
func (o *gitStatusOut) parseChange(entry string, fields int, oldPath string) {
	parts := strings.SplitN(entry, " ", fields+1)
	if len(parts) != fields+1 || len(parts[0]) != 2 {
		return
	}
	path := parts[fields]
	for i, list := range []*[]change{&o.Staged, &o.Unstaged} {
		status := statusWord(parts[0][i])
		if status == "" {
			continue
		}
		c := change{Path: path, Status: status}
		if status == "renamed" || status == "copied" {
			c.OldPath = oldPath
		}
		*list = append(*list, c)
	}
}

func statusWord(letter byte) string {
	switch letter {
	case 'M':
		return "modified"
	case 'A':
		return "added"
	case 'D':
		return "deleted"
	case 'R':
		return "renamed"
	case 'C':
		return "copied"
	case 'T':
		return "type_changed"
	default:
		return ""
	}
}
