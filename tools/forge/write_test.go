package forge_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/forge"
)

const (
	issues = "POST /repos/o/r/issues"
	pulls  = "POST /repos/o/r/pulls"
)

// writer is one of the two tools that change something, with valid arguments.
type writer struct {
	name, request string
	args          object
	schema        string
}

func writers() []writer {
	return []writer{
		{"github.createIssue", issues, in(object{"title": "t"}), "issue"},
		{"github.createPR", pulls, in(object{"title": "t", "head": "h", "base": "main"}), "pull-request"},
	}
}

func (s *server) created(schema string, own object) answer {
	o := object{"number": 1347, "id": 5_000_000_000, "html_url": "https://github.com/o/r/x/1347", "state": "open"}
	maps.Copy(o, own)
	return answer{status: http.StatusCreated, body: s.object(s.t, schema, o)}
}

// S3-060, S3-065: the input is sent with defaults, and the number and the URL are returned.
func TestWrites(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.on(issues, s.created("issue", nil))
	s.on(pulls, s.created("pull-request", nil))
	for _, tc := range []struct {
		tool string
		args object
		sent string
	}{
		{"github.createIssue", object{"title": "t"}, `{"title": "t"}`},
		{
			"github.createIssue",
			object{"title": strings.Repeat("ü", 256), "body": "<b>\n", "labels": []string{"bug", "a b"}, "assignees": []string{"u"}, "milestone": 3},
			`{"title": "` + strings.Repeat("ü", 256) + `", "body": "<b>\n", "labels": ["bug", "a b"], "assignees": ["u"], "milestone": 3}`,
		},
		{
			"github.createPR",
			object{"title": "t", "head": "f:feature/x", "base": "main"},
			`{"title": "t", "head": "f:feature/x", "base": "main", "draft": false, "maintainer_can_modify": true}`,
		},
		{
			"github.createPR",
			object{"title": "t", "head": "h", "base": "main", "body": "", "draft": true, "maintainer_can_modify": false},
			`{"title": "t", "head": "h", "base": "main", "body": "", "draft": true, "maintainer_can_modify": false}`,
		},
	} {
		out, err := call(t, tool(t, s.config(), tc.tool), in(tc.args))
		require.NoError(t, err)
		assert.Equal(t, object{"number": 1347.0, "id": 5e9, "url": "https://github.com/o/r/x/1347", "state": "open"}, out)
		assert.JSONEq(t, tc.sent, s.bodies[len(s.bodies)-1])
	}
}

// S3-068: the intent of a write names the server of the API, so that the plan or a person must permit it. Nothing is
// sent.
func TestIntents(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, w := range writers() {
		for _, tc := range []struct{ url, endpoint string }{
			{"", "https://api.github.com:443"}, {"https://GHE.example/api/v3", "https://ghe.example:443"}, {s.url + "/api/v3", s.url},
		} {
			write := tool(t, forge.Config{URL: tc.url, Token: secret}, w.name)
			assert.Equal(t, tools.ByIntent, write.Spec().Approval)
			raw, err := json.Marshal(w.args)
			require.NoError(t, err)
			raw, err = write.Check(raw)
			require.NoError(t, err)
			says, ok := write.(tools.Intender)
			require.True(t, ok)
			intent, err := says.Intent(t.Context(), newEnv(), raw)
			require.NoError(t, err)
			assert.Equal(t, tools.Write, intent.Effect)
			assert.Equal(t, []tools.Target{{Kind: tools.Endpoint, Name: tc.endpoint}}, intent.Targets)
		}
	}
	assert.Empty(t, s.seen())
}

// A request that GitHub rejects had no effect.
func TestRefusedWrites(t *testing.T) {
	t.Parallel()
	s := serve(t)
	detail := func(field, message string) object {
		return object{"resource": "Issue", "field": field, "code": "custom", "message": message}
	}
	for _, w := range writers() {
		for _, tc := range []struct {
			a      answer
			code   fault.Code
			reason string
			field  string
		}{
			{s.problem(http.StatusUnauthorized), fault.Forbidden, "ACCESS_DENIED", ""},
			{s.problem(http.StatusForbidden), fault.Forbidden, "ACCESS_DENIED", ""},
			{s.problem(http.StatusUnavailableForLegalReasons), fault.Forbidden, "ACCESS_DENIED", ""},
			{s.problem(http.StatusNotFound), fault.NotFound, "REPO_NOT_FOUND", "repo"},
			{s.problem(http.StatusGone), fault.Gone, "", ""},
			{s.problem(http.StatusConflict), fault.Conflict, "", ""},
			{s.problem(http.StatusUnprocessableEntity), fault.ValidationError, "", ""},
			{s.problem(http.StatusUnprocessableEntity, detail("verbatim", "verbatim"), detail("labels", "verbatim")), fault.ValidationError, "", "labels"},
			{s.problem(http.StatusUnprocessableEntity, detail("", "A pull request already exists for o:h.")), fault.Conflict, "", "head"},
			{s.problem(http.StatusTeapot), fault.GithubError, "", ""},
		} {
			if tc.a.status == http.StatusTeapot {
				tc.code = fault.InDoubt // unknown status
				tc.reason = "GITHUB_ERROR"
			}
			s.on(w.request, tc.a)
			_, err := call(t, tool(t, s.config(), w.name), w.args)
			failed(t, err, tc.code, tc.reason, tc.field)
		}
		cfg := s.config()
		cfg.Token = ""
		s.seen()
		_, err := call(t, tool(t, cfg, w.name), w.args)
		failed(t, err, fault.Forbidden, "ACCESS_DENIED", "")
		assert.Empty(t, s.seen())
	}
}

// A write without a response may have succeeded: it is in doubt and not repeated.
func TestWritesInDoubt(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, w := range writers() {
		for _, a := range []answer{
			s.problem(http.StatusInternalServerError),
			s.problem(http.StatusBadGateway),
			s.problem(http.StatusAccepted),
			{status: http.StatusCreated, raw: "<html>" + secret},
			{status: http.StatusCreated, raw: "{}"},
			{status: http.StatusCreated, raw: strings.Repeat(" ", 9<<20)},
		} {
			s.on(w.request, a)
			_, err := call(t, tool(t, s.config(), w.name), w.args)
			failed(t, err, fault.InDoubt, "GITHUB_ERROR", "")
		}
	}
}
