package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
)

// register registers a client.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		Redirects []string `json:"redirect_uris"`
		Kind      string   `json:"application_type"`
	}
	if json.NewDecoder(r.Body).Decode(&wanted) != nil || len(wanted.Redirects) != 1 || wanted.Kind != "native" {
		refuse(w, "invalid_client_metadata")
		return
	}
	id := "client-" + rand.Text()
	document := map[string]any{"client_id": id, "redirect_uris": wanted.Redirects, "token_endpoint_auth_method": "none"}
	s.Clients[id], s.redirect[id] = "", wanted.Redirects[0]
	if s.Secretive {
		s.Clients[id] = s.secret("secret")
		document["client_secret"], document["token_endpoint_auth_method"] = s.Clients[id], "client_secret_basic"
	}
	answer(w, http.StatusCreated, document)
}

// authorize approves the login, and redirects the browser.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	_, known := s.Clients[q.Get("client_id")]
	back, err := url.Parse(q.Get("redirect_uri"))
	wrong := err != nil || back.Hostname() != "127.0.0.1" || q.Get("state") == "" || q.Get("resource") != s.URL+"/mcp" ||
		q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("scope") == ""
	if redirect, dynamic := s.redirect[q.Get("client_id")]; !known || wrong || dynamic && redirect != q.Get("redirect_uri") {
		http.Error(w, "this is no question", http.StatusBadRequest)
		return
	}
	code := s.secret("code")
	s.codes[code] = codeGrant{q.Get("client_id"), q.Get("code_challenge"), q.Get("redirect_uri"), q.Get("resource")}
	parameters := map[string]string{"code": code, "state": q.Get("state"), "iss": s.URL}
	if s.Answer != nil {
		s.Answer(parameters)
	}
	values := url.Values{}
	for name, value := range parameters {
		values.Set(name, value)
	}
	back.RawQuery = values.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // the redirect leads to 127.0.0.1
}

// token issues tokens for a code or a refresh token. A refresh token is valid once; a second use revokes all tokens.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	id, ok := s.client(r)
	if !ok {
		refuse(w, "invalid_client")
		return
	}
	form := r.PostForm
	switch form.Get("grant_type") {
	case "authorization_code":
		want, known := s.codes[form.Get("code")]
		delete(s.codes, form.Get("code"))
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		got := codeGrant{id, base64.RawURLEncoding.EncodeToString(sum[:]), form.Get("redirect_uri"), form.Get("resource")}
		if !known || got != want || len(form.Get("code_verifier")) < 43 {
			refuse(w, "invalid_grant")
			return
		}
	case "refresh_token":
		fresh, known := s.refresh[form.Get("refresh_token")]
		if known && !fresh { // a second use: the token was stolen
			clear(s.access)
			clear(s.refresh)
		}
		if !fresh || form.Get("resource") != s.URL+"/mcp" {
			refuse(w, "invalid_grant")
			return
		}
		s.refresh[form.Get("refresh_token")] = false
		clear(s.access)
	default:
		refuse(w, "unsupported_grant_type")
		return
	}
	s.issueTokens(w)
}

// issueTokens answers with new tokens.
func (s *Server) issueTokens(w http.ResponseWriter) {
	access, refresh := s.secret("access"), s.secret("refresh")
	s.access[access], s.refresh[refresh] = true, true
	document := map[string]any{"access_token": access, "token_type": "bearer", "refresh_token": refresh, "scope": "notes"}
	if s.Life > 0 {
		document["expires_in"] = int(s.Life.Seconds())
	}
	answer(w, http.StatusOK, document)
}

// client returns the id of the client that has sent a form, and reports whether the client is authenticated.
func (s *Server) client(r *http.Request) (string, bool) {
	id, secret := r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		id, _ = url.QueryUnescape(user) // an invalid id matches no client
		secret, _ = url.QueryUnescape(password)
	}
	want, known := s.Clients[id]
	return id, known && secret == want
}
