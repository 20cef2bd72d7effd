// Package realtime is a client of the Firebase Realtime Database: it uses the REST protocol for reads and writes, and
// a stream of server-sent events for watches. It implements firebase.Backend.
//
// Writes are first checked locally with the rules of package tree, so that every backend returns the same errors; the
// server has the final decision. The server does not sort, so the children of a query are sorted here.
package realtime

import (
	"log/slog"
	"net/url"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/backlog"
)

const (
	// DefaultAnswer is the default maximum size of the JSON in a response, in an event and at a watched path, in bytes.
	DefaultAnswer = 32 << 20
	// DefaultCall is the default time limit of a call with all its requests.
	DefaultCall = 30 * time.Second
	// DefaultIdle is how long a stream may be silent by default. The server sends a keep-alive every 30 seconds.
	DefaultIdle = 75 * time.Second
	// DefaultRetry is the default of the backoff before a broken stream is reopened. The backoff doubles with each attempt.
	DefaultRetry = 500 * time.Millisecond
)

// Config configures a client. Only URL is required.
type Config struct {
	// Net configures which addresses, besides public ones, are permitted. The server of URL is always permitted.
	Net netguard.Config
	// URL is the URL of the database, such as https://NAME.firebaseio.com. Its query, as in
	// http://127.0.0.1:9000?ns=NAME, is added to each request.
	URL string
	// Token is the credential: the JSON key of a service account; "Bearer " and an access token; or an ID token or a
	// secret of the database. "" means none.
	Token string
	// Backlog is how many events a watcher may be behind before its watch ends; 0 means backlog.Default.
	Backlog int
	// MaxAnswer, Call, Idle and Retry default to DefaultAnswer, DefaultCall, DefaultIdle and DefaultRetry when 0.
	MaxAnswer         int64
	Call, Idle, Retry time.Duration
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
	// Log logs broken streams; nil discards the records.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Backlog == 0 {
		c.Backlog = backlog.Default
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = DefaultAnswer
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{{&c.Call, DefaultCall}, {&c.Idle, DefaultIdle}, {&c.Retry, DefaultRetry}} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Client is a client of a Realtime Database. It need not be closed: watches end with their contexts.
type Client struct {
	cfg        Config
	net        *netguard.Client
	base       *url.URL
	credential credential
}

var _ firebase.Backend = (*Client)(nil)

// Open returns a client. It sends no request. Errors: VALIDATION_ERROR with the name of the setting.
func Open(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, net: netguard.New(cfg.Net.Reaching(cfg.URL))}
	var err error
	if c.base, err = c.net.Parse(cfg.URL); err != nil {
		return nil, fault.New(fault.ValidationError, "must be an http or https URL").WithField("firebase_realtime_url").
			WithHint("use the URL of the database, such as https://NAME.firebaseio.com")
	}
	if c.credential, err = newCredential(cfg); err != nil {
		return nil, err
	}
	return c, nil
}
