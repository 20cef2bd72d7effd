package node_test

import (
	"context"
	"encoding/json"
	"os/user"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/statemachine"
)

// person returns the user who runs the tests, who owns the data directories.
func person(t *testing.T) string {
	t.Helper()
	u, err := user.Current()
	require.NoError(t, err)
	return "user:" + u.Username
}

// operate starts a node and connects to it with the credential of the operator.
func operate(t *testing.T, change ...func(*node.Config)) (*node.Node, *rpc.Remote) {
	t.Helper()
	cfg := config(t)
	for _, c := range change {
		c(&cfg)
	}
	n := start(t, cfg)
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close()) })
	return n, remote
}

// actingFields returns the names of the fields of a request that name its actor.
func actingFields(request reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(request) {
		if f.Type.Kind() == reflect.String && (f.Name == "Actor" || f.Name == "By") {
			names = append(names, f.Name)
		}
	}
	return names
}

var capital = regexp.MustCompile(`(.)([A-Z])`)

// The actor of each API request is the identity of its credential. A request that names another actor is refused.
func TestNoRequestNamesItsSender(t *testing.T) {
	t.Parallel()
	_, remote := operate(t)
	assert.Equal(t, person(t), remote.Identity())
	owner, tried := reflect.TypeFor[api.API](), 0
	for m := range owner.Methods() {
		in := m.Type.In(1)
		if len(actingFields(in)) == 0 || in == reflect.TypeFor[api.FindRequest]() || in == reflect.TypeFor[api.AuditRequest]() { // these select by an actor
			continue
		}
		tried++
		acting, ok := reflect.TypeAssert[rpc.ActorRequest](reflect.New(in))
		require.True(t, ok, "%s says who acts", in)
		require.Len(t, acting.ActorFields(), 1, in)
		*acting.ActorFields()[0] = "user:nobody"
		method := bus.CommandPrefix + "." + strings.ToLower(capital.ReplaceAllString(m.Name, "${1}_$2"))
		refused(t, remote.Ask(t.Context(), method, acting, nil), method)
	}
	assert.Equal(t, 25, tried)
}

func refused(t *testing.T, err error, what string) {
	t.Helper()
	require.Error(t, err, what)
	f := fault.From(err)
	assert.Equal(t, fault.Forbidden, f.Code, "%s: %v", what, err)
	assert.Equal(t, rpc.IdentityMismatch, f.Reason, "%s: %v", what, err)
	assert.Equal(t, "actor", f.Field, what)
}

// The same applies to other requests with the credential of the operator.
func TestNoOtherRequestNamesItsSender(t *testing.T) {
	t.Parallel()
	_, remote := operate(t)
	nobody := "user:nobody"
	for method, request := range map[string]any{
		bus.CommandPrefix + ".submit_batch": api.SubmitBatchRequest{Tasks: []api.SubmitRequest{{}, {Actor: nobody}}},
		bus.TokenPrefix + ".create":         bus.NewToken{Name: "x", Role: bus.RoleOperator, Actor: nobody},
		bus.TokenPrefix + ".revoke":         bus.RevokeToken{Token: "x", Actor: nobody},
		bus.AgentPrefix + ".register":       agents.Registration{Name: "x", By: nobody},
		bus.AgentPrefix + ".collect":        agents.Collection{By: nobody},
		bus.AgentPrefix + ".remove":         agents.Removal{Agent: "x", By: nobody},
	} {
		refused(t, remote.Ask(t.Context(), method, request, nil), method)
	}
	broker := rpc.NewMessageClient[messages.Delegation](remote, bus.MessagesPrefix)
	who := messages.Delegation{For: nobody, By: nobody}
	_, err := broker.Send(t.Context(), who, messages.Draft{})
	refused(t, err, "send")
	_, err = broker.Inbox(t.Context(), who, messages.Query{})
	refused(t, err, "inbox")
	_, err = broker.Ack(t.Context(), who, nil)
	refused(t, err, "ack")
	_, err = broker.Group(t.Context(), who, messages.GroupChange{})
	refused(t, err, "group")
}

// The same applies to requests about MCP servers, which start programs.
func TestNoRequestAboutServersNamesItsSender(t *testing.T) {
	t.Parallel()
	cfg, _ := withServers(t)
	admin := admins(t, cfg, start(t, cfg))["elsewhere"].As("user:nobody")
	_, err := admin.Enable(t.Context(), "wiki")
	refused(t, err, "enable")
	_, err = admin.Disable(t.Context(), "wiki")
	refused(t, err, "disable")
	_, err = admin.Accept(t.Context(), node.Acceptance{Server: "wiki", Tools: map[string]string{"search": "x"}, By: "user:nobody"})
	refused(t, err, "accept")
}

const releasePlan = `
orch: v1
steps:
  - {id: ok, approve: {description: Release, quorum: 2}}
`

// awaitingApproval submits a plan that asks at once and returns its approval.
func awaitingApproval(t *testing.T, owner api.API, plan string, actor string) api.ApprovalView {
	t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	reply, err := owner.Submit(t.Context(), api.SubmitRequest{Plan: text, Actor: actor})
	require.NoError(t, err)
	_, err = owner.Result(t.Context(), api.ResultRequest{ID: reply.ID, Wait: time.Minute, Attend: true})
	require.NoError(t, err)
	open, err := owner.Approvals(t.Context(), api.ApprovalsRequest{Task: reply.ID})
	require.NoError(t, err)
	require.Len(t, open.Approvals, 1)
	return open.Approvals[0]
}

// A credential counts as one vote of a quorum, whatever actors its requests name.
func TestOneCredentialIsOneVoice(t *testing.T) {
	t.Parallel()
	n, remote := operate(t)
	p := awaitingApproval(t, n.API(), releasePlan, "user:ada")
	grant := func(actor string) error {
		_, err := remote.Decide(t.Context(), api.DecideRequest{ID: p.ID, As: "granted", Actor: actor})
		return err
	}
	require.NoError(t, grant(""))
	refused(t, grant("user:nobody"), "another name")
	refused(t, grant(strings.ToUpper(person(t))), "another form of the name")
	refused(t, grant("agent:bot"), "an agent")
	assert.Equal(t, fault.Conflict, fault.CodeOf(grant("")), "a second voice")
	assert.Equal(t, fault.Conflict, fault.CodeOf(grant(person(t))), "a second voice, by name")
	open, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{ID: p.ID})
	require.NoError(t, err)
	assert.Equal(t, []string{person(t)}, open.Approvals[0].Votes)
}

// With four_eyes, the credential that submitted a task cannot decide about it, whatever actor the request names.
func TestFourEyesOfOneCredential(t *testing.T) {
	t.Parallel()
	n, remote := operate(t, func(c *node.Config) { c.Confinement.FourEyes = true })
	p := awaitingApproval(t, remote, strings.Replace(releasePlan, ", quorum: 2", "", 1), "")
	assert.Equal(t, person(t), p.Submitter)
	for _, as := range []string{"granted", "rejected", "revise"} {
		decide := func(actor string) error {
			_, err := remote.Decide(t.Context(), api.DecideRequest{ID: p.ID, As: as, Reason: "because", Actor: actor})
			return err
		}
		refused(t, decide("user:nobody"), as)
		err := decide("")
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), as)
		assert.Contains(t, err.Error(), "somebody else", as)
	}
	task, err := json.Marshal(releasePlan)
	require.NoError(t, err)
	_, err = remote.Submit(t.Context(), api.SubmitRequest{Plan: task, Actor: "user:nobody"})
	refused(t, err, "a task in another name, to decide about it")
	left, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{})
	require.NoError(t, err)
	assert.Len(t, left.Approvals, 1)
}

// Over HTTP the token determines the actor. A name in the body is no argument of any method.
func TestNoBodyOfRPCNamesItsSender(t *testing.T) {
	t.Parallel()
	e := serveRPC(t)
	plan := object{"orch": "v1", "steps": []object{{"id": "a", "wait": object{"signal": "go"}}}}
	for _, field := range []string{"actor", "by", "requestor", "approver", "on_behalf_of", "identity"} {
		r := e.call("orch_submit", object{"plan": plan, field: "user:nobody"})
		require.NotNil(t, r.Error, field)
	}
	r := e.call("orch_submit", object{"plan": plan})
	require.Nil(t, r.Error, "%v", r.Error)
	id := str(r.Result["id"])
	for _, field := range []string{"actor", "by"} {
		require.NotNil(t, e.call("orch_cancel", object{"task_id": id, field: "user:nobody"}).Error, field)
	}
	view, err := e.API().Get(t.Context(), api.GetRequest{ID: events.TaskID(id)})
	require.NoError(t, err)
	assert.Equal(t, "user:op", view.Requestor)
}

// speaks connects with the token of an identity.
func speaks(t *testing.T, cfg node.Config, secret string) *rpc.Remote {
	t.Helper()
	cfg.Token = secret
	remote, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, remote.Close()) })
	return remote
}

// secretOf creates a token and returns its secret.
func secretOf(t *testing.T, n *node.Node, token bus.NewToken) string {
	t.Helper()
	token.Actor = person(t)
	_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), token)
	require.NoError(t, err)
	return secret
}

// Two people with two credentials have two votes, one each.
func TestTwoCredentialsAreTwoVoices(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Confinement.FourEyes = true
	n := start(t, cfg)
	ada := speaks(t, cfg, secretOf(t, n, bus.NewToken{Name: "ada", Role: bus.RoleOperator}))
	bob := speaks(t, cfg, secretOf(t, n, bus.NewToken{Name: "bob", Role: bus.RoleOperator}))
	assert.Equal(t, "user:bob", bob.Identity())
	p := awaitingApproval(t, ada, releasePlan, "")
	assert.Equal(t, "user:ada", p.Submitter)
	grant := func(r *rpc.Remote, actor string) error {
		_, err := r.Decide(t.Context(), api.DecideRequest{ID: p.ID, As: "granted", Actor: actor})
		return err
	}
	refused(t, grant(ada, "user:bob"), "in the name of another one")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(grant(ada, "")), "four eyes")
	require.NoError(t, grant(bob, ""))
	refused(t, grant(bob, person(t)), "in the name of another one")
	assert.Equal(t, fault.Conflict, fault.CodeOf(grant(bob, "user:bob")), "a second voice")
	operator, err := node.Dial(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, operator.Close()) })
	require.NoError(t, grant(operator, ""))
	r := result(t, n.API(), p.Task)
	assert.Equal(t, statemachine.Done, r.State)
}

// The command line accepts tokens of operators without restrictions, and no others.
func TestTokensThatTheCommandLineRefuses(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	for name, token := range map[string]bus.NewToken{
		"submitter": {Role: bus.RoleSubmitter}, "agent": {Role: bus.RoleAgent}, "viewer": {Role: bus.RoleViewer},
		"some-tools": {Role: bus.RoleOperator, Tools: []string{"FILE_*"}}, "read-only": {Role: bus.RoleOperator, ReadOnly: true},
		"short": {Role: bus.RoleOperator, Life: time.Nanosecond},
	} {
		token.Name = name
		with := cfg
		with.Token = secretOf(t, n, token)
		_, err := node.Dial(t.Context(), with)
		assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "%s: %v", name, err)
	}
	with := cfg
	with.Token = agents.NewSecret()
	_, err := node.Dial(t.Context(), with)
	assert.Equal(t, fault.Unauthorized, fault.CodeOf(err), "%v", err)
}

// Nobody can send requests at the subjects of another identity. A token permits nothing but its commands.
func TestSubjectsOfOthersAreClosed(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	bobs, eves := secretOf(t, n, bus.NewToken{Name: "bob", Role: bus.RoleOperator}), secretOf(t, n, bus.NewToken{Name: "eve", Role: bus.RoleOperator})
	p := awaitingApproval(t, n.API(), releasePlan, "user:ada")
	body, err := json.Marshal(api.DecideRequest{ID: p.ID, As: "granted"})
	require.NoError(t, err)
	asBob := bus.IdentitySubjects + "." + agents.DigestOf(bobs) + ".decide"
	for who, attack := range map[string]struct {
		secret   string
		subjects []string
	}{
		"the operator": {"", []string{asBob}},
		"a token": {eves, []string{
			asBob, bus.CommandPrefix + ".decide", bus.TokenPrefix + ".create", bus.ServersPrefix + ".reload", node.LinkMethod, "$JS.API.STREAM.NAMES", "orch.agent.AGT_X.tasks",
		}},
	} {
		c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: cfg.DataDir, Token: attack.secret})
		require.NoError(t, err, who)
		for _, subject := range attack.subjects {
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := c.NATS().RequestWithContext(ctx, subject, body)
			stop()
			require.Error(t, err, "%s at %s", who, subject)
		}
		c.Close()
	}
	_, err = speaks(t, cfg, bobs).ListTokens(t.Context())
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err), "what takes the credential of the operator")
	open, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{ID: p.ID})
	require.NoError(t, err)
	assert.Empty(t, open.Approvals[0].Votes)
}

// A connection ends when its token expires.
func TestATokenThatIsRevokedSpeaksNoMore(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	n := start(t, cfg)
	bob := speaks(t, cfg, secretOf(t, n, bus.NewToken{Name: "bob", Role: bus.RoleOperator}))
	_, err := n.Tokens().RevokeToken(t.Context(), bus.RevokeToken{Token: "bob", Actor: person(t)})
	require.NoError(t, err)
	_, err = bob.List(t.Context(), api.ListRequest{})
	require.Error(t, err)
}
