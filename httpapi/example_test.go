package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi"
)

// Agents serves what registered agents say; the credential says which agent it is.
func ExampleAgents() {
	handler := httpapi.Agents(httpapi.AgentsConfig{
		Dispatcher: quiet{},
		Verify: func(_ context.Context, secret string) (agents.Member, error) {
			if secret != "s3cret" {
				return agents.Member{}, fault.New(fault.Unauthorized, "this is no credential of an agent")
			}
			return agents.Member{Name: "ada"}, nil
		},
	})
	for _, secret := range []string{"s3cret", "guess"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, agents.StatusPath, strings.NewReader(`{}`))
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 401
}

func ExamplePaginate() {
	p := httpapi.Paginate(2, 20, 45)
	fmt.Println(p.TotalPages, p.HasPrevious, p.HasNext)
	// Output: 3 true true
}

// Each code of an error has a status of HTTP.
func ExampleStatus() {
	fmt.Println(httpapi.Status(fault.NotFound), httpapi.Status(fault.RateLimited), httpapi.Status(fault.ValidationError))
	// Output: 404 429 400
}
