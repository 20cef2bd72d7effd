package rest

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// headerWrite is the header that a write with a cookie needs. A page of another site cannot send it without asking the node.
const headerWrite = "X-Orch-Request"

// authenticate sets the client of a request: that of its bearer token, or else of its cookie.
func (s *Server) authenticate(x *exchange) (err error) {
	if !sameOrigin(x.r) {
		return fault.New(fault.Forbidden, "requests from pages of other origins are refused").WithField("Origin").WithReason("ORIGIN_NOT_ALLOWED")
	}
	if header := x.r.Header.Get("Authorization"); header != "" {
		token, err := bearer(header)
		if err != nil {
			return err
		}
		x.client, err = s.cfg.Authenticator.Authenticate(x.r.Context(), token)
		return unauthorized(err)
	}
	login, ok := s.cfg.Logins.of(x.r)
	if !ok {
		return fault.New(fault.Unauthorized, "a bearer token or a login is required").WithHint("orch token create makes a token; orch ui opens the page")
	}
	if err := checkCookieWrite(x.r); err != nil {
		return err
	}
	x.login = &login
	x.client, err = s.cfg.Authenticator.Client(login)
	return unauthorized(err)
}

// bearer returns the token in a header Authorization.
func bearer(header string) (string, error) {
	parts := strings.Fields(header)
	if len(parts) != 2 || !strings.EqualFold(parts[0], "Bearer") {
		return "", fault.New(fault.Unauthorized, "the header Authorization must have the form Bearer TOKEN")
	}
	return parts[1], nil
}

// unauthorized returns an error of authentication with one of its codes.
func unauthorized(err error) error {
	if err == nil || fault.Has(err, fault.TokenExpired) || fault.Has(err, fault.Unauthorized) {
		return err
	}
	return fault.Wrap(fault.Unauthorized, err, "the token cannot be checked now")
}

// sameOrigin reports whether a request has no origin or that of the node.
func sameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Host == r.Host
}

// checkCookieWrite refuses a write with a cookie that does not come from the page of the node. Browsers send cookies by
// themselves, so the cookie alone does not show that the page has made the request.
func checkCookieWrite(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	refused := func(field string) error {
		return fault.New(fault.Forbidden, "a request with a cookie must come from the page of the node").WithField(field).WithReason("CROSS_SITE")
	}
	site, told := r.Header["Sec-Fetch-Site"]
	switch {
	case told && (len(site) != 1 || site[0] != "same-origin"):
		return refused("Sec-Fetch-Site")
	case !told && r.Header.Get("Origin") == "": // a foreign one was refused before
		return refused("Origin")
	case r.Header.Get(headerWrite) != "1":
		return refused(headerWrite)
	}
	return nil
}
