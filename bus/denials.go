package bus

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/fault"
)

// ReasonDenied is the reason of the error for a subject that the NATS server does not let the credential use.
const ReasonDenied = "NATS_PERMISSION"

// denial is a subject that the server has denied.
type denial struct {
	// act is publish to or subscribe to.
	act, subject string
	at           time.Time
}

// deniedForm is what the server says about a denied subject.
var deniedForm = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// parseDenial returns the subject that an asynchronous error of a connection is about; false for any other error.
func parseDenial(err error) (denial, bool) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return denial{}, false
	}
	found := deniedForm.FindStringSubmatch(err.Error())
	if found == nil {
		return denial{}, false
	}
	act := "publish to"
	if strings.EqualFold(found[1], "subscription") {
		act = "subscribe to"
	}
	return denial{act, found[2], time.Now()}, true
}

// concerns reports whether a stream is named in the subject.
func (d denial) concerns(stream string) bool {
	return slices.Contains(strings.Split(d.subject, "."), stream)
}

func (d denial) fault() *fault.Error {
	return fault.New(fault.Forbidden, "the NATS server does not let the credential of orch %s %s", d.act, d.subject).WithReason(ReasonDenied).
		WithHint("give the user of the server the permissions of docs/reference/nats-permissions.md")
}

// denials collects what the server denies a connection. The server answers a denied publish with an error that belongs to no request: its
// sender would wait until its time is over.
type denials struct {
	mu sync.Mutex
	// newest is the newest one; zero for none.
	newest denial
	// watchers are called for each one.
	watchers map[*func(denial)]bool
	// logged is when a kind was logged last.
	logged map[string]time.Time
}

const (
	// logDenialEvery is the time between two entries of the log about a kind of denials.
	logDenialEvery = time.Minute
	// maxDenialKinds bounds the kinds that are told apart.
	maxDenialKinds = 256
	// denialKind is how many tokens of a subject tell a kind.
	denialKind = 5
)

// note collects a denial, and reports whether it is to be logged.
func (ds *denials) note(d denial) (log bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.newest = d
	for w := range ds.watchers {
		(*w)(d)
	}
	tokens := strings.Split(d.subject, ".")
	kind := d.act + strings.Join(tokens[:min(len(tokens), denialKind)], ".")
	if last, known := ds.logged[kind]; known && d.at.Sub(last) < logDenialEvery {
		return false
	}
	if ds.logged == nil || len(ds.logged) >= maxDenialKinds {
		ds.logged = map[string]time.Time{}
	}
	ds.logged[kind] = d.at
	return true
}

// watch calls f for each denial until stop is called. f must not block.
func (ds *denials) watch(f func(denial)) (stop func()) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.watchers == nil {
		ds.watchers = map[*func(denial)]bool{}
	}
	ds.watchers[&f] = true
	return func() {
		ds.mu.Lock()
		defer ds.mu.Unlock()
		delete(ds.watchers, &f)
	}
}

// since returns the newest denial after a time; false if there is none.
func (ds *denials) since(t time.Time) (denial, bool) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.newest, ds.newest.at.After(t)
}

// Denied returns err, or if the server has denied a subject to the connection since began, FORBIDDEN with the reason ReasonDenied.
func (c *Conn) Denied(began time.Time, err error) error {
	d, denied := c.denials.since(began)
	if err == nil || !denied || fault.From(err).Reason == ReasonDenied {
		return err
	}
	f := d.fault()
	return fault.Wrap(f.Code, err, f.Message).WithReason(f.Reason).WithHint("%s", f.Hint)
}
