package node

import (
	"context"
	"net/url"
	"time"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/rpc"
)

// LinkMethod is the method that makes a one-time link. Only the operator's credential may call it, so no link permits more than its
// caller may do.
const LinkMethod = bus.PagePrefix + ".link"

// LinkRequest asks for a one-time link. At most one field is set; without any, the link logs in a browser as the operator.
type LinkRequest struct {
	// Role is the role of the operator in the browser: operator, submitter or viewer.
	Role string `json:"role,omitempty"`
	// Token is the name or the id of a token: the browser gets its identity, its role and its limits, as long as the token is valid.
	Token string `json:"token,omitempty"`
}

// Link is a one-time link that logs in a browser.
type Link struct {
	// URL is the link, and Page the address of the page without a login.
	URL  string `json:"url"`
	Page string `json:"page"`
	// Identity and Role are those of the browser.
	Identity string `json:"identity"`
	Role     string `json:"role"`
	// ExpiresAt is when the link stops working.
	ExpiresAt time.Time `json:"expires_at"`
}

// LinkRoles returns the roles of a browser.
func LinkRoles() []string {
	return []string{string(rest.Operator), string(rest.Submitter), string(rest.Viewer)}
}

// serveLinks serves requests for one-time links.
func (fa *face) serveLinks(context.Context) error {
	end, err := rpc.Serve(fa.requests, bus.PagePrefix, map[string]rpc.Method{"link": rpc.Handle(fa.auditedLink)}, fa.forOperator())
	if err == nil {
		fa.onStop(closeSoon(end))
	}
	return err
}

// Link makes a one-time link. While the node starts, it waits until HTTP is served. Errors: UNAVAILABLE if the node does not serve HTTP,
// VALIDATION_ERROR for an unknown role, NOT_FOUND or TOKEN_EXPIRED for a token that is not valid, FORBIDDEN for the token of an agent.
func (fa *face) Link(ctx context.Context, r LinkRequest) (Link, error) {
	select {
	case <-fa.started:
	case <-ctx.Done():
		return Link{}, fault.From(ctx.Err())
	}
	page := fa.PageURL()
	if page == "" {
		return Link{}, fault.New(fault.Unavailable, "the node does not serve HTTP").WithField("http").WithHint("start it with --http 127.0.0.1:7424")
	}
	login, err := fa.loginFor(r)
	if err != nil {
		return Link{}, err
	}
	code, err := fa.logins.NewCode(login)
	if err != nil {
		return Link{}, err
	}
	return Link{
		URL: page + "login?code=" + url.QueryEscape(code), Page: page, Identity: login.Name, Role: string(login.Role),
		ExpiresAt: time.Now().Add(rest.CodeLife).UTC(),
	}, nil
}

// loginFor returns the login that a request asks for.
func (fa *face) loginFor(r LinkRequest) (rest.Login, error) {
	switch {
	case r.Token == "":
		role, err := linkRole(r.Role)
		return rest.Login{Name: fa.Operator(), Role: role}, err
	case r.Role != "":
		return rest.Login{}, fault.New(fault.ValidationError, "a token has a role of its own").WithField("role")
	}
	t, err := fa.credentials.tokens.Token(r.Token)
	if err != nil {
		return rest.Login{}, err
	}
	if t.Role == bus.RoleAgent {
		return rest.Login{}, fault.New(fault.Forbidden, "the token is that of an agent; the page is for people").WithField("token")
	}
	return rest.Login{Name: identityOf(t).Name, Role: rest.Role(t.Role), Token: t.ID}, nil
}

// linkRole returns the role with a name; empty means operator.
func linkRole(name string) (rest.Role, error) {
	switch role := rest.Role(name); role {
	case "":
		return rest.Operator, nil
	case rest.Operator, rest.Submitter, rest.Viewer:
		return role, nil
	default:
		return "", fault.New(fault.ValidationError, "must be operator, submitter or viewer").WithField("role")
	}
}
