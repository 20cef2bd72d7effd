package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
)

// S3-131: the arithmetic at nothing, one, a multiple and the last page.
func TestPagination(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		page, perPage, total, pages int
		next, previous              bool
	}{
		{1, 10, 0, 0, false, false},
		{1, 10, 1, 1, false, false},
		{1, 10, 10, 1, false, false},
		{1, 10, 11, 2, true, false},
		{2, 10, 20, 2, false, true},
		{2, 10, 21, 3, true, true},
		{3, 10, 21, 3, false, true},
		{9, 10, 21, 3, false, true},
		{1, 100, 100, 1, false, false},
		{1, 1, 3, 3, true, false},
	} {
		got := httpapi.Paginate(tc.page, tc.perPage, tc.total)
		want := httpapi.Pagination{
			Page: tc.page, PerPage: tc.perPage, Total: tc.total, TotalPages: tc.pages, HasNext: tc.next, HasPrevious: tc.previous,
		}
		assert.Equal(t, want, got)
	}
	assert.Equal(t, httpapi.Pagination{Page: 1, PerPage: 1}, httpapi.Paginate(0, 0, -1), "values are brought to their bounds")
	assert.Equal(t, 100, httpapi.Paginate(1, 1000, 5).PerPage)
}

// Walking from page to page by hasNext meets every item once.
func TestPaginationWalks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		perPage, total := rapid.IntRange(1, 100).Draw(t, "perPage"), rapid.IntRange(0, 3000).Draw(t, "total")
		seen, page := 0, 1
		for {
			p := httpapi.Paginate(page, perPage, total)
			seen += min(perPage, total-seen)
			require.Equal(t, page > 1, p.HasPrevious)
			if !p.HasNext {
				require.Equal(t, max(p.TotalPages, 1), page)
				break
			}
			page++
		}
		require.Equal(t, total, seen)
	})
}

func TestNewNeedsADoor(t *testing.T) {
	t.Parallel()
	_, err := httpapi.New(httpapi.Config{})
	require.ErrorIs(t, err, &fault.Error{Code: fault.ValidationError})
}
