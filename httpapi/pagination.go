package httpapi

import "encoding/json"

// Pagination is the type Pagination of the S3 rules (S3-131).
type Pagination struct {
	// Page counts from 1.
	Page int `json:"page"`
	// PerPage is 1 to 100.
	PerPage     int  `json:"perPage"`
	Total       int  `json:"total"`
	TotalPages  int  `json:"totalPages"`
	HasNext     bool `json:"hasNext"`
	HasPrevious bool `json:"hasPrevious"`
}

const maxPerPage = 100

// Paginate returns the pagination of a result. It clamps page and perPage to their limits.
func Paginate(page, perPage, total int) Pagination {
	p := Pagination{Page: max(page, 1), PerPage: min(max(perPage, 1), maxPerPage), Total: max(total, 0)}
	p.TotalPages = p.Total / p.PerPage
	if p.Total%p.PerPage > 0 {
		p.TotalPages++
	}
	p.HasNext, p.HasPrevious = p.Page < p.TotalPages, p.Page > 1 && p.TotalPages > 0
	return p
}

// maxGitHubResults is the most results of a search that GitHub returns, even if the total is larger.
const maxGitHubResults = 1000

// addPagination adds the pagination to the result of a method with pages. It returns the results of other methods unchanged.
func addPagination(method string, params, result json.RawMessage) json.RawMessage {
	var in struct{ Limit, Offset int }
	var out struct {
		Total         *int
		Page, PerPage int
	}
	if json.Unmarshal(result, &out) != nil || out.Total == nil {
		return orEmpty(result)
	}
	var p Pagination
	switch method {
	case "github.searchCode":
		p = Paginate(out.Page, out.PerPage, min(*out.Total, maxGitHubResults))
		p.Total = *out.Total
	case "system.listSkills":
		_ = json.Unmarshal(params, &in) // the call has validated the params
		if in.Limit == 0 {
			in.Limit = maxPerPage
		}
		if in.Limit > maxPerPage || in.Offset%in.Limit != 0 {
			return result // the offset is not at the beginning of a page
		}
		p = Paginate(in.Offset/in.Limit+1, in.Limit, *out.Total)
	default:
		return result
	}
	return withField(result, "pagination", p)
}

// withField adds a field to an object.
func withField(object json.RawMessage, name string, value any) json.RawMessage {
	fields := map[string]json.RawMessage{}
	added, err := json.Marshal(value)
	if err != nil || json.Unmarshal(object, &fields) != nil {
		return object
	}
	fields[name] = added
	whole, err := json.Marshal(fields)
	if err != nil {
		return object
	}
	return whole
}

func orEmpty(result json.RawMessage) json.RawMessage {
	if len(result) == 0 {
		return json.RawMessage("{}")
	}
	return result
}
