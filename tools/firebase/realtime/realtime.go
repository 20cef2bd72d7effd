// Package realtime is a client of the Firebase Realtime Database: its REST protocol for reads and writes, its
// stream of server-sent events for watches. It is a firebase.Backend.
//
// What is written is checked here first, with the rules of package tree, so that refusals are the same for
// every backend; the server has the last word. The server sorts nothing, so the children of a query are
// put in order here.
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
	// DefaultAnswer is how many bytes of JSON an answer, an event and what is watched may have.
	DefaultAnswer = 32 << 20
	// DefaultCall bounds a call with all its requests.
	DefaultCall = 30 * time.Second
	// DefaultIdle is how long a stream may be silent; the server says every 30 seconds that it lives.
	DefaultIdle = 75 * time.Second
	// DefaultRetry is the first wait before a broken stream is opened again; each further one is twice as long.
	DefaultRetry = 500 * time.Millisecond
)

// Config is the configuration of a client. Only URL is needed.
type Config struct {
	// Net says what may be reached beside public addresses. The server of URL always may.
	Net netguard.Config
	// URL is that of the database, such as https://NAME.firebaseio.com. Its query goes along with each
	// request: http://127.0.0.1:9000?ns=NAME.
	URL string
	// Token is the credential: the JSON of a service account; "Bearer " and what goes into the header
	// Authorization; or an ID token or a secret of the database, which the protocol takes in the query
	// alone. "" is none.
	Token string
	// Backlog is how many events a watcher may be behind before it is cut off; 0 is backlog.Default.
	Backlog int
	// MaxAnswer, Call, Idle and Retry are DefaultAnswer, DefaultCall, DefaultIdle and DefaultRetry when they are 0.
	MaxAnswer         int64
	Call, Idle, Retry time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is told of streams that break; nil logs nothing.
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
		value *time.Duration
		usual time.Duration
	}{{&c.Call, DefaultCall}, {&c.Idle, DefaultIdle}, {&c.Retry, DefaultRetry}} {
		if *d.value == 0 {
			*d.value = d.usual
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

// Client is a Realtime Database. It holds nothing that needs closing: watches end with their contexts.
type Client struct {
	cfg        Config
	net        *netguard.Client
	base       *url.URL
	credential credential
}

var _ firebase.Backend = (*Client)(nil)

// Open returns a client. It sends nothing. Errors: VALIDATION_ERROR with the name of the setting.
func Open(cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, net: netguard.New(cfg.Net.Reaching(cfg.URL))}
	var err error
	if c.base, err = c.net.Parse(cfg.URL); err != nil {
		return nil, fault.New(fault.ValidationError, "it is no http or https URL").WithField("firebase_realtime_url").
			WithHint("it is that of the database, such as https://NAME.firebaseio.com")
	}
	if c.credential, err = newCredential(cfg); err != nil {
		return nil, err
	}
	return c, nil
}
