package crash_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/crash"
)

const (
	// letterLife is how long most messages live: the inboxes of groups and of all are empty again in time.
	letterLife = 2 * time.Minute
	// briefLife is how long those live that may expire before anybody reads them.
	briefLife = 2 * time.Second
	// writeEvery is the longest pause of a sender, readWait how long a reader waits for news.
	writeEvery = 250 * time.Millisecond
	readWait   = 500 * time.Millisecond
	// crowd is the group of the readers.
	crowd = "crowd"
)

// readerNames returns the readers in the test process: r0 reads pending messages and acknowledges them, r1 reads with a
// cursor and acknowledges later.
func readerNames() []string { return []string{"user:r0", "user:r1"} }

// messageClient is the state of senders and readers: their requests and the answers.
type messageClient struct {
	load    *load
	broker  messages.Broker[messages.Delegation]
	reading sync.WaitGroup
	// stop stops the readers. still is closed when they must only read the remaining messages.
	stop context.CancelFunc

	mu     sync.Mutex
	events []crash.MessageEvent
}

// openMessageClient makes the readers join their group and start to read.
func openMessageClient(r *run, remote *rpc.Remote) *messageClient {
	r.t.Helper()
	m := &messageClient{load: r.load, broker: rpc.NewMessageClient[messages.Delegation](remote, peoplePrefix)}
	for _, who := range readerNames() {
		_, err := m.broker.Group(r.t.Context(), self(who), messages.GroupChange{Join: crowd})
		require.NoError(r.t, err)
	}
	ctx, stop := context.WithCancel(r.t.Context())
	m.stop = stop
	r.t.Cleanup(func() { stop(); m.reading.Wait() })
	for i, who := range readerNames() {
		m.reading.Go(func() { m.read(ctx, who, i > 0) })
	}
	return m
}

func self(who string) messages.Delegation { return messages.Delegation{For: who, By: who} }

func (m *messageClient) record(list ...crash.MessageEvent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events = append(m.events, list...)
}

// send writes letters until stop is closed.
func (m *messageClient) send(ctx context.Context, stop <-chan struct{}, rng *rand.Rand, round, i int) {
	who := fmt.Sprintf("user:s%d-%d", round, i)
	for n := 1; !closed(stop); n++ {
		m.sendOne(ctx, rng, who, round, n)
		_ = pause.For(ctx, rand.N(writeEvery))
	}
}

// sendOne sends a letter. A letter with a key is sent until it is acknowledged, and sometimes once more. Without a key
// it is sent once, whatever the outcome.
func (m *messageClient) sendOne(ctx context.Context, rng *rand.Rand, who string, round, n int) {
	e := crash.MessageEvent{What: crash.Tried, Who: who, Sender: who, Letter: fmt.Sprintf("%s/%d", who, n), No: n, Round: round}
	d := messages.Draft{TTL: letterLife, Type: "task"}
	all := readerNames()
	switch rng.IntN(8) {
	case 0:
		d.To, e.For = []string{"group:" + crowd}, all
	case 1:
		d.To, d.Exclude, e.For = []string{"group:" + crowd}, all[1:], all[:1]
	case 2:
		d.To, e.For = all, all
	default:
		d.To = all[n%2 : n%2+1]
		e.For = d.To
	}
	if rng.IntN(8) == 0 {
		d.TTL = briefLife
	}
	if rng.IntN(3) > 0 {
		d.Key = e.Letter
	}
	d.Payload, _ = json.Marshal(e.Letter) // a text
	m.record(e)
	again := d.Key != "" && rng.IntN(6) == 0
	m.post(ctx, e, d)
	if again {
		m.post(ctx, e, d)
	}
}

// post sends a draft and records the answer.
func (m *messageClient) post(ctx context.Context, e crash.MessageEvent, d messages.Draft) {
	e.What, e.Asked = crash.Sent, time.Now()
	send := func(ctx context.Context, d messages.Draft) (messages.Receipt, error) {
		return m.broker.Send(ctx, self(e.Who), d)
	}
	var r messages.Receipt
	var err error
	if d.Key != "" {
		r, _, err = insist(ctx, send, d)
	} else if r, err = once(ctx, send, d); unknown(err) {
		return
	}
	if err != nil {
		m.load.violate("I15", "", e.Round, "the letter %s was refused: %v", e.Letter, err)
		return
	}
	e.ID, e.Expires, e.At = r.ID, r.ExpiresAt, time.Now()
	m.record(e)
}

// once sends a request once; the answer may be missing.
func once[In, Out any](ctx context.Context, ask func(context.Context, In) (Out, error), in In) (Out, error) {
	ctx, stop := context.WithTimeout(ctx, oneAnswer)
	defer stop()
	return ask(ctx, in)
}

// read reads an inbox until ctx ends, across all deaths of the node.
func (m *messageClient) read(ctx context.Context, who string, follows bool) {
	q := messages.Query{InOrder: true, Wait: readWait, Limit: 20}
	var read []string
	for ctx.Err() == nil {
		asked := time.Now()
		page, err := once(ctx, func(ctx context.Context, q messages.Query) (messages.Page, error) {
			return m.broker.Inbox(ctx, self(who), q)
		}, q)
		switch {
		case ctx.Err() != nil:
			return
		case unknown(err):
			_ = pause.For(ctx, retryEvery)
			continue
		case err != nil:
			m.load.violate("I15", "", 0, "the reader %s was sent away: %v", who, err)
			return
		}
		read = append(read, m.seen(who, q, page, asked, follows)...)
		if follows {
			q.After = max(q.After, page.Next)
		}
		if len(read) > 0 && (!follows || len(read) >= 10) {
			m.done(ctx, who, read)
			read = nil
		}
	}
}

// seen records a page and returns its message ids.
func (m *messageClient) seen(who string, q messages.Query, page messages.Page, asked time.Time, follows bool) []string {
	var ids []string
	for _, got := range page.Messages {
		var text string
		if err := json.Unmarshal(got.Payload, &text); err != nil {
			var object struct{ Text string }
			_ = json.Unmarshal(got.Payload, &object) // what is neither has no letter
			text = object.Text
		}
		ids = append(ids, got.ID)
		m.record(crash.MessageEvent{
			What: crash.Seen, Who: who, Letter: text, ID: got.ID, Sender: got.Sender, Position: got.Position, Cursor: q.After,
			Follows: follows, Expires: got.ExpiresAt, Asked: asked, At: time.Now(),
		})
	}
	return ids
}

// done acknowledges messages.
func (m *messageClient) done(ctx context.Context, who string, ids []string) {
	_, _, err := insist(ctx, func(ctx context.Context, ids []string) (messages.Acked, error) {
		return m.broker.Ack(ctx, self(who), ids)
	}, ids)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		m.load.violate("I15", "", 0, "the reader %s cannot acknowledge: %v", who, err)
		return
	}
	for _, id := range ids {
		m.record(crash.MessageEvent{What: crash.Acked, Who: who, ID: id, At: time.Now()})
	}
}

// awaitMail waits until every acknowledged letter has reached its recipients, and stops the readers.
func (r *run) awaitMail(within time.Duration) []crash.MessageEvent {
	r.t.Helper()
	end := time.Now().Add(within)
	for len(crash.CheckMessages(r.letters())) > 0 && time.Now().Before(end) {
		wait(50 * time.Millisecond)
	}
	r.messages.stop()
	r.messages.reading.Wait()
	return r.letters()
}

// letters are the events of all senders and readers.
func (r *run) letters() []crash.MessageEvent {
	r.t.Helper()
	list, err := crash.ReadMessageLog(messageLogPath(r.cluster.dir))
	if !fault.Has(err, fault.NotFound) {
		require.NoError(r.t, err)
	}
	r.messages.mu.Lock()
	defer r.messages.mu.Unlock()
	return append(list, r.messages.events...)
}
