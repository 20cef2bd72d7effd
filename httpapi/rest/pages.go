package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"html"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/orch-dev/orch/fault"
)

// contentPolicy is the Content-Security-Policy of the page: it runs its own files, and talks to its own node, alone.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
	"base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// The paths of the way in for a browser.
const (
	loginPath  = Pages + "login"
	logoutPath = Pages + "logout"
)

// addPages adds the handlers of the page.
func (s *Server) addPages(mux *http.ServeMux) {
	mux.Handle(loginPath, s.page(http.MethodGet, s.logIn))
	mux.Handle(logoutPath, s.page(http.MethodPost, s.logOut))
	mux.Handle(Pages, s.page(http.MethodGet, s.serveFile))
}

// page returns a handler for one HTTP method, with the headers that protect all pages.
func (s *Server) page(verb string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case s.cfg.Rebound(r):
			writePage(w, http.StatusMisdirectedRequest, "This address does not belong to the node", "Open the page with the address that orch ui prints.")
		case r.Method != verb && (r.Method != http.MethodHead || verb != http.MethodGet):
			h.Set("Allow", verb)
			writePage(w, http.StatusMethodNotAllowed, "The page does not support this", "It supports "+verb+".")
		default:
			serve(w, r)
		}
	})
}

// writePage sends a small page with a title and a sentence.
func writePage(w http.ResponseWriter, status int, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><title>` + html.EscapeString(title) + `</title><h1>` +
		html.EscapeString(title) + `</h1><p>` + html.EscapeString(text) + "</p></html>\n"))
}

// logIn exchanges the code of a one-time link for a cookie. HEAD does not use up the code.
func (s *Server) logIn(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Logins == nil || r.Method == http.MethodHead {
		writePage(w, http.StatusNotFound, "There is no login here", "Run orch ui.")
		return
	}
	secret, _, err := s.cfg.Logins.redeem(r.URL.Query().Get("code"))
	switch {
	case fault.Has(err, fault.QuotaExceeded):
		writePage(w, http.StatusServiceUnavailable, "Too many browsers are logged in", "Log out in one of them.")
		return
	case err != nil:
		writePage(w, http.StatusGone, "The link was used, or has expired", "A link works once, within a minute. Run orch ui to get another one.")
		return
	}
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without Secure: the node serves HTTP, at loopback or behind a proxy
		Name: cookieName, Value: secret, Path: "/", MaxAge: int(LoginLife.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil,
	})
	w.Header().Set("Location", Pages)
	w.WriteHeader(http.StatusSeeOther)
}

// logOut ends the login of a browser.
func (s *Server) logOut(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) || checkCookieWrite(r) != nil {
		writePage(w, http.StatusForbidden, "The page of the node alone logs out", "Open the page and log out there.")
		return
	}
	s.cfg.Logins.end(r)
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // as above
	w.WriteHeader(http.StatusNoContent)
}

// hashed matches the names of files that contain a digest of their content, such as app-3f2a9c1b.js.
var hashed = regexp.MustCompile(`[-.][A-Za-z0-9_-]{8,}\.[a-z0-9]+$`)

// serveFile serves a file of the page. All paths without an extension are views of the page: index.html serves them.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Pages)
	if path.Ext(name) == "" {
		name = "index.html"
	}
	if !fs.ValidPath(name) {
		writePage(w, http.StatusNotFound, "There is no such file", "The page begins at "+Pages+".")
		return
	}
	data, err := fs.ReadFile(s.cfg.Files, name)
	if err != nil {
		status := http.StatusNotFound
		if !errors.Is(err, fs.ErrNotExist) {
			status = http.StatusInternalServerError
		}
		writePage(w, status, "There is no such file", "The page begins at "+Pages+".")
		return
	}
	s.sendFile(w, r, name, data)
}

// sendFile sends a file, or status 304 if the browser has it.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, name string, data []byte) {
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if name != "index.html" && hashed.MatchString(name) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if matchesTag(r.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	kind := mediaTypes[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	if kind == "" {
		kind = "application/octet-stream"
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data) //nolint:gosec // a file of the program; the client may be gone
}

// mediaTypes are the types of the files of the page, regardless of the settings of the machine.
var mediaTypes = map[string]string{ //nolint:gochecknoglobals // a constant table
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".json": "application/json", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2", ".txt": "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json", ".map": "application/json",
}
