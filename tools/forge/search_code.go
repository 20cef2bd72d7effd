package forge

import (
	"context"
	"net/url"
	"strconv"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
)

const (
	// maxReachable is the number of results of a search that GitHub returns on all pages together.
	maxReachable = 1000
	// maxFilter is the maximum length of a filter in bytes.
	maxFilter = 256
)

type searchCodeIn struct {
	Query   string        `json:"query" jsonschema:"Search query" minLength:"1" maxLength:"256"`
	Filters searchFilters `json:"filters,omitzero" jsonschema:"Where to search"`
	Sort    string        `json:"sort,omitempty" jsonschema:"Order of the results" enum:"indexed,best-match" default:"best-match"`
	PerPage int           `json:"perPage,omitempty" jsonschema:"Results of a page" minimum:"1" maximum:"100" default:"30"`
	Page    int           `json:"page,omitempty" jsonschema:"Page, from 1; GitHub shows the first 1000 results" minimum:"1" default:"1"`
}

type searchFilters struct {
	Owner     string `json:"owner,omitempty" jsonschema:"User or organization that owns the repositories"`
	Repo      string `json:"repo,omitempty" jsonschema:"Name of one repository, with owner; or both as owner/name"`
	Language  string `json:"language,omitempty" jsonschema:"Programming language"`
	Path      string `json:"path,omitempty" jsonschema:"Folder that the files lie in"`
	Filename  string `json:"filename,omitempty" jsonschema:"Name of the files"`
	Extension string `json:"extension,omitempty" jsonschema:"Extension of the files"`
}

type searchCodeOut struct {
	Results []foundCode `json:"results" jsonschema:"The files of this page"`
	Total   int         `json:"total" jsonschema:"Total number of results"`
	Page    int         `json:"page,omitempty" jsonschema:"The requested page"`
	PerPage int         `json:"perPage,omitempty" jsonschema:"Results of a page"`
}

type foundCode struct {
	Repository foundRepository `json:"repository,omitzero" jsonschema:"Repository of the file"`
	Path       string          `json:"path,omitempty" jsonschema:"Path of the file"`
	Matches    []codeMatch     `json:"matches,omitempty" jsonschema:"Where the query matches"`
}

type foundRepository struct {
	Owner       string `json:"owner,omitempty" jsonschema:"Owner of the repository"`
	Name        string `json:"name,omitempty" jsonschema:"Name of the repository"`
	Description string `json:"description,omitempty" jsonschema:"Description of the repository"`
	Stars       *int   `json:"stars,omitempty" jsonschema:"Number of stars, if GitHub returns it"`
}

type codeMatch struct {
	Line      *int   `json:"line,omitempty" jsonschema:"Line number; GitHub does not return it in searches"`
	Text      string `json:"text,omitempty" jsonschema:"The line"`
	Highlight string `json:"highlight,omitempty" jsonschema:"Part of the line that matches"`
}

// sentResults is a page of results as GitHub sends it.
type sentResults struct {
	Total      int       `json:"total_count"`
	Incomplete bool      `json:"incomplete_results"`
	Items      []sentHit `json:"items"`
}

type sentHit struct {
	Path       string         `json:"path"`
	Repository sentRepository `json:"repository"`
	Matches    []sentMatch    `json:"text_matches"`
}

type sentRepository struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Stars       *int   `json:"stargazers_count"`
	Owner       struct {
		Login string `json:"login"`
	} `json:"owner"`
}

// sentMatch is a fragment of a file or of its path, with what matches in it.
type sentMatch struct {
	Property string `json:"property"`
	Fragment string `json:"fragment"`
	Matches  []struct {
		Text string `json:"text"`
	} `json:"matches"`
}

// searchCode is github.searchCode (S3-055, S3-056).
func searchCode(a *api) tools.Tool {
	return tools.Define(tools.Spec{
		Name:        "github.searchCode",
		Title:       "Search code on GitHub",
		Purpose:     "Search for code across GitHub repositories",
		Conditions:  []string{"Any task state", "The operator has configured github_token"},
		Effect:      tools.Read,
		Gate:        tools.AnyState,
		Approval:    tools.NoApproval,
		Rate:        tools.External,
		OpenWorld:   true,
		NoWorkspace: true,
		Errors:      []string{"VALIDATION_ERROR", "INVALID_FORMAT", "ACCESS_DENIED", "RATE_LIMIT", "GITHUB_ERROR", "TIMEOUT", "TOOL_UNAVAILABLE"},
	}, func(ctx context.Context, env *tools.Env, in searchCodeIn) (searchCodeOut, error) {
		query, err := in.searchQuery()
		if err != nil {
			return searchCodeOut{}, err
		}
		if err := a.requireToken(); err != nil {
			return searchCodeOut{}, err
		}
		ctx, cancel := withCallTimeout(ctx)
		defer cancel()
		found, err := a.search(ctx, in, query)
		if err != nil {
			e := a.apiError(err, env.Now())
			if e.Code == fault.ValidationError {
				return searchCodeOut{}, e.WithField("query").WithHint("repositories in filters must exist and be open to github_token")
			}
			return searchCodeOut{}, e
		}
		if found.Incomplete {
			env.Progress(1, 1, "the search on GitHub timed out: there may be more results")
		}
		return in.output(found), nil
	})
}

// search requests a page of results with the fragments that match.
func (a *api) search(ctx context.Context, in searchCodeIn, query string) (sentResults, error) {
	values := url.Values{"q": {query}, "page": {strconv.Itoa(in.Page)}, "per_page": {strconv.Itoa(in.PerPage)}}
	if in.Sort == "indexed" {
		values.Set("sort", in.Sort)
	}
	var found sentResults
	err := a.rest.get(ctx, "search/code", values, "application/vnd.github.text-match+json", &found)
	return found, err
}

// searchQuery returns the query, followed by the filters as GitHub qualifiers such as language:go.
func (in searchCodeIn) searchQuery() (string, error) {
	if strings.TrimSpace(in.Query) == "" {
		return "", fault.New(fault.ValidationError, "must not be empty").WithField("query")
	}
	if (in.Page-1)*in.PerPage >= maxReachable || in.Page > maxReachable {
		return "", fault.New(fault.ValidationError, "lies beyond the first %d results, which GitHub shows", maxReachable).WithField("page")
	}
	parts := []string{in.Query}
	where, err := in.Filters.repositoryQualifier()
	if err != nil {
		return "", err
	}
	if where != "" {
		parts = append(parts, where)
	}
	f := in.Filters
	for _, q := range []struct{ name, value string }{
		{"language", f.Language}, {"path", f.Path}, {"filename", f.Filename}, {"extension", f.Extension},
	} {
		if q.value == "" {
			continue
		}
		value, err := qualifierValue("filters."+q.name, q.value)
		if err != nil {
			return "", err
		}
		parts = append(parts, q.name+":"+value)
	}
	return strings.Join(parts, " "), nil
}

// repositoryQualifier returns the qualifier for the owner and the repository.
func (f searchFilters) repositoryQualifier() (string, error) {
	owner, repo := f.Owner, f.Repo
	if before, after, ok := strings.Cut(repo, "/"); ok && (owner == "" || strings.EqualFold(owner, before)) {
		owner, repo = before, after
	}
	switch {
	case owner == "" && repo == "":
		return "", nil
	case owner == "":
		return "", fault.New(fault.RequiredField, "is required with filters.repo").WithField("filters.owner").
			WithHint("or write filters.repo as owner/name")
	case repo == "":
		return "user:" + owner, withFilterField(checkRepository(owner, "-"))
	default:
		return "repo:" + owner + "/" + repo, withFilterField(checkRepository(owner, repo))
	}
}

func withFilterField(err error) error {
	if err == nil {
		return nil
	}
	e := fault.From(err)
	return e.WithField("filters." + e.Field)
}

// qualifierValue returns the value of a qualifier, quoted if it is more than one plain word.
func qualifierValue(field, value string) (string, error) {
	switch {
	case len(value) > maxFilter:
		return "", tooLong(field, maxFilter)
	case strings.ContainsAny(value, `"\`) || hasControl(value):
		return "", fault.New(fault.InvalidFormat, "must not contain quotes, backslashes or control characters").WithField(field)
	case strings.ContainsAny(value, " :()"):
		return `"` + value + `"`, nil
	default:
		return value, nil
	}
}

func (in searchCodeIn) output(found sentResults) searchCodeOut {
	out := searchCodeOut{Results: make([]foundCode, 0, len(found.Items)), Total: found.Total, Page: in.Page, PerPage: in.PerPage}
	for _, c := range found.Items {
		repo := c.Repository
		result := foundCode{Path: c.Path, Repository: foundRepository{
			Owner: repo.Owner.Login, Name: repo.Name, Description: repo.Description, Stars: repo.Stars,
		}}
		for _, m := range c.Matches {
			if m.Property == "content" {
				result.Matches = append(result.Matches, m.lines()...)
			}
		}
		out.Results = append(out.Results, result)
	}
	return out
}

// lines returns the matches of a fragment, each with its complete lines.
func (m sentMatch) lines() []codeMatch {
	var all []codeMatch
	fragment, from := m.Fragment, 0
	for _, match := range m.Matches {
		at := strings.Index(fragment[from:], match.Text)
		if at < 0 {
			continue
		}
		start := from + at
		from = start + len(match.Text)
		begin := strings.LastIndexByte(fragment[:start], '\n') + 1
		end := len(fragment)
		if i := strings.IndexByte(fragment[from:], '\n'); i >= 0 {
			end = from + i
		}
		all = append(all, codeMatch{Text: fragment[begin:end], Highlight: match.Text})
	}
	return all
}
