package rest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

const (
	// CodeLife is how long the code of a one-time link is valid.
	CodeLife = time.Minute
	// LoginLife is how long a login is valid.
	LoginLife = 12 * time.Hour
	// maxCodes and maxLogins bound the codes and the logins in memory.
	maxCodes, maxLogins = 100, 1000
	// cookieName is the name of the cookie of a login.
	cookieName = "orch_session"
)

// Login is the login of a browser.
type Login struct {
	// Name is the actor in the log, such as user:ada.
	Name string
	Role Role
	// Token is the id of the token with which the login ends, and which may narrow it; empty for none.
	Token string
	// Expires is when the login ends.
	Expires time.Time

	// ended is closed when the browser logs out.
	ended chan struct{}
}

// digest is the SHA-256 of a secret. Only digests of secrets are kept.
type digest [sha256.Size]byte

// Logins holds the one-time codes and the logins of browsers, in memory. It is safe for concurrent use.
type Logins struct {
	now func() time.Time

	mu     sync.Mutex
	codes  map[digest]Login // Expires is that of the code
	logins map[digest]Login
}

// NewLogins returns an empty set of logins. A nil clock means time.Now.
func NewLogins(now func() time.Time) *Logins {
	if now == nil {
		now = time.Now
	}
	return &Logins{now: now, codes: map[digest]Login{}, logins: map[digest]Login{}}
}

// newSecret returns 256 random bits.
func newSecret() (string, digest) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	text := base64.RawURLEncoding.EncodeToString(b[:])
	return text, sha256.Sum256([]byte(text))
}

// NewCode returns a code that logs in one browser within CodeLife. Expires of the login is ignored. It returns QUOTA_EXCEEDED if too
// many codes are open.
func (l *Logins) NewCode(login Login) (string, error) {
	code, sum := newSecret()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune()
	if len(l.codes) >= maxCodes {
		return "", fault.New(fault.QuotaExceeded, "%d links are open", maxCodes).WithHint("wait a minute")
	}
	login.Expires = l.now().Add(CodeLife)
	l.codes[sum] = login
	return code, nil
}

// redeem exchanges a code for a login. It returns GONE if the code is unknown, was used or has expired.
func (l *Logins) redeem(code string) (secret string, login Login, err error) {
	sum := sha256.Sum256([]byte(code))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prune()
	login, ok := l.codes[sum]
	if !ok {
		return "", Login{}, fault.New(fault.Gone, "the link was used, or has expired")
	}
	delete(l.codes, sum)
	if len(l.logins) >= maxLogins {
		return "", Login{}, fault.New(fault.QuotaExceeded, "%d browsers are logged in", maxLogins)
	}
	login.Expires, login.ended = l.now().Add(LoginLife), make(chan struct{})
	secret, sum = newSecret()
	l.logins[sum] = login
	return secret, login, nil
}

// of returns the login of a request. A nil *Logins has none.
func (l *Logins) of(r *http.Request) (Login, bool) {
	if l == nil {
		return Login{}, false
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Login{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	login, ok := l.logins[sha256.Sum256([]byte(cookie.Value))]
	return login, ok && l.now().Before(login.Expires)
}

// end removes the login of a request, which ends its streams.
func (l *Logins) end(r *http.Request) {
	cookie, err := r.Cookie(cookieName)
	if l == nil || err != nil {
		return
	}
	sum := sha256.Sum256([]byte(cookie.Value))
	l.mu.Lock()
	defer l.mu.Unlock()
	if login, ok := l.logins[sum]; ok {
		close(login.ended)
		delete(l.logins, sum)
	}
}

// during returns a context that ends with the login as well.
func (l Login) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithDeadline(ctx, l.Expires)
	go func() {
		select {
		case <-l.ended:
			stop()
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// prune removes what has expired. l.mu must be held.
func (l *Logins) prune() {
	now := l.now()
	expired := func(_ digest, login Login) bool { return !now.Before(login.Expires) }
	maps.DeleteFunc(l.codes, expired)
	maps.DeleteFunc(l.logins, expired)
}
