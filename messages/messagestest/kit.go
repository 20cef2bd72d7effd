package messagestest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

// Opener opens an empty broker. reopen closes it and returns a new broker with the same stored records.
type Opener func(t *testing.T, cfg messages.Config) (broker messages.Broker[string], reopen func() messages.Broker[string])

// Clock is a manual clock: it stands still until Add moves it.
type Clock struct {
	mu sync.Mutex
	at time.Time
}

// NewClock returns a clock that shows the current time.
func NewClock() *Clock { return &Clock{at: time.Now()} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Add advances the clock.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// TestBroker runs the conformance tests for a broker.
func TestBroker(t *testing.T, open Opener) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Opener){
		"direct": testDirect, "all": testAll, "groups": testGroups, "several": testSeveral, "order": testOrder,
		"urgent": testUrgent, "cursor": testCursor, "keys": testKeys, "answers": testAnswers, "filters": testFilters,
		"life": testLife, "full": testFull, "full of all": testFullOfAll, "restart": testRestart, "wait": testWait,
		"many": testMany, "refusals": testRefusals, "secrets": testSecrets, "pages": testPages, "forget": testForget,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

func testDirect(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	r := d.send("user:ada", "hello", messages.Draft{Type: "task"}, "agent:bob")
	p := d.page("agent:bob", messages.Query{})
	require.Len(t, p.Messages, 1)
	m := p.Messages[0]
	assert.Equal(t, r.ID, m.ID)
	assert.Equal(t, "user:ada", m.Sender)
	assert.Equal(t, "task", m.Type)
	assert.Equal(t, messages.DefaultPriority, m.Priority)
	assert.JSONEq(t, `{"text":"hello"}`, string(m.Payload))
	assert.WithinDuration(t, m.At.Add(24*time.Hour), m.ExpiresAt, time.Millisecond)
	assert.Equal(t, 1, p.Waiting)
	assert.Empty(t, d.texts("user:ada", messages.Query{}))
	assert.Empty(t, d.texts("agent:eve", messages.Query{}))
	assert.Equal(t, []string{"hello"}, d.texts("agent:bob", messages.Query{}), "until it is acknowledged")
	assert.Equal(t, []string{r.ID}, d.ack("agent:eve", r.ID).Unknown)
	assert.Equal(t, []string{"hello"}, d.texts("agent:bob", messages.Query{}), "nobody else can do that")
	assert.Equal(t, []string{r.ID}, d.ack("agent:bob", r.ID).Acknowledged)
	assert.Empty(t, d.texts("agent:bob", messages.Query{}))
	assert.Equal(t, []string{r.ID}, d.ack("agent:bob", r.ID).Unknown)
}

// A message to all reaches offline and later agents, but not its sender and excluded identities.
func testAll(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	r := d.send("agent:bob", "news", messages.Draft{Exclude: []string{"agent:eve"}}, "all")
	for _, who := range []string{"user:ada", "agent:new"} {
		assert.Equal(t, []string{"news"}, d.texts(who, messages.Query{}), who)
	}
	for _, who := range []string{"agent:bob", "agent:eve"} {
		assert.Empty(t, d.texts(who, messages.Query{}), who)
	}
	d.ack("user:ada", r.ID)
	assert.Empty(t, d.texts("user:ada", messages.Query{}))
	d.restart()
	assert.Empty(t, d.texts("user:ada", messages.Query{}))
	assert.Equal(t, []string{"news"}, d.texts("agent:new", messages.Query{}))
}

func testGroups(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	r := d.send("user:ada", "nobody hears", messages.Draft{}, "group:ops")
	assert.Equal(t, []string{"group:ops"}, r.Unknown)
	d.join("agent:bob", "ops")
	d.join("agent:bob", "group:ops")
	d.join("agent:eve", "group:ops")
	d.join("agent:eve", "group:qa")
	assert.Empty(t, d.texts("agent:bob", messages.Query{}), "who joins hears what comes then")
	r = d.send("agent:eve", "deploy", messages.Draft{}, "group:ops", "group:qa", "agent:bob")
	assert.Empty(t, r.Unknown)
	assert.Equal(t, []string{"deploy"}, d.texts("agent:bob", messages.Query{}), "once, however often it is addressed")
	assert.Empty(t, d.texts("agent:eve", messages.Query{}))
	d.ack("agent:bob", r.ID)
	d.restart()
	assert.Empty(t, d.texts("agent:bob", messages.Query{}))
	d.send("user:ada", "again", messages.Draft{}, "group:ops")
	g, err := d.Group(t.Context(), "agent:eve", messages.GroupChange{Leave: "ops"})
	require.NoError(t, err)
	assert.Equal(t, []string{"group:qa"}, g.Groups)
	assert.Empty(t, d.texts("agent:eve", messages.Query{}), "who leaves hears no more")
	assert.Equal(t, []string{"again"}, d.texts("agent:bob", messages.Query{}))
	d.restart()
	g, err = d.Group(t.Context(), "agent:eve", messages.GroupChange{})
	require.NoError(t, err)
	assert.Equal(t, []string{"group:qa"}, g.Groups)
	assert.Empty(t, d.texts("agent:eve", messages.Query{}))
}

// One recipient acknowledges without affecting the others.
func testSeveral(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	r := d.send("user:ada", "both", messages.Draft{}, "agent:a", "agent:b")
	d.ack("agent:a", r.ID)
	assert.Empty(t, d.texts("agent:a", messages.Query{}))
	d.restart()
	assert.Empty(t, d.texts("agent:a", messages.Query{}))
	assert.Equal(t, []string{"both"}, d.texts("agent:b", messages.Query{}))
	d.ack("agent:b", r.ID)
	assert.Empty(t, d.texts("agent:b", messages.Query{}))
	d.restart()
	assert.Empty(t, d.texts("agent:b", messages.Query{}))
}

func testOrder(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	var want []string
	for i := range 30 {
		want = append(want, strconv.Itoa(i))
		d.send("user:ada", want[i], messages.Draft{}, "agent:bob")
	}
	assert.Equal(t, want, d.texts("agent:bob", messages.Query{Limit: 100}))
	d.restart()
	assert.Equal(t, want, d.texts("agent:bob", messages.Query{Limit: 100, InOrder: true}))
}

func testUrgent(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	for i, p := range []int{1, 4, 0, 4} {
		d.send("user:ada", strconv.Itoa(i), priority(p), "agent:bob")
	}
	assert.Equal(t, []string{"1", "3", "0", "2"}, d.texts("agent:bob", messages.Query{}))
	assert.Equal(t, []string{"0", "1", "2", "3"}, d.texts("agent:bob", messages.Query{InOrder: true}))
	assert.Equal(t, []string{"1", "3"}, d.texts("agent:bob", messages.Query{MinPriority: 3}))
	assert.Zero(t, d.page("agent:bob", messages.Query{Limit: 2}).Next, "there is no cursor for half of that order")
}

// A reader with a cursor sees each message once, also after a restart.
func testCursor(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	var seen []string
	q := messages.Query{InOrder: true, Limit: 3}
	for i := range 10 {
		d.send("user:ada", strconv.Itoa(i), messages.Draft{}, "agent:bob")
		if i%4 == 3 {
			p := d.page("agent:bob", q)
			seen, q.After = append(seen, textsOf(t, p)...), p.Next
			d.restart()
		}
	}
	for {
		p := d.page("agent:bob", q)
		seen, q.After = append(seen, textsOf(t, p)...), p.Next
		if !p.More {
			break
		}
	}
	assert.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, seen)
	assert.Empty(t, d.texts("agent:bob", q))
	q.After += 1000
	assert.Len(t, d.texts("agent:bob", q), 3, "the cursor of another store begins anew")
}

func testKeys(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	first := d.send("user:ada", "once", messages.Draft{Key: "k"}, "agent:bob")
	assert.False(t, first.Existing)
	second := d.send("user:ada", "once", messages.Draft{Key: "k"}, "agent:bob")
	assert.True(t, second.Existing)
	assert.Equal(t, first.ID, second.ID)
	other := d.send("user:eve", "once", messages.Draft{Key: "k"}, "agent:bob")
	assert.NotEqual(t, first.ID, other.ID, "keys belong to senders")
	_, err := d.Send(t.Context(), "user:ada", messages.Draft{Key: "k", To: []string{"agent:bob"}, Payload: text("another")})
	assert.Equal(t, fault.Conflict, fault.CodeOf(err))
	long := d.send("user:ada", "long", messages.Draft{Key: "call TASK_01JD0000000000000000000000/" + strings.Repeat("step/12/", 30)}, "agent:bob")
	d.ack("agent:bob", first.ID, other.ID, long.ID)
	d.restart()
	third := d.send("user:ada", "once", messages.Draft{Key: "k"}, "agent:bob")
	assert.True(t, third.Existing)
	assert.Empty(t, d.texts("agent:bob", messages.Query{}), "what was dealt with does not come again")
}

func testAnswers(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	ask := d.send("user:ada", "what is it?", messages.Draft{Type: "task"}, "agent:bob", "agent:eve")
	assert.Equal(t, ask.ID, ask.Correlation)
	d.ack("agent:bob", ask.ID)
	r := d.send("agent:bob", "it is 42", messages.Draft{ReplyTo: ask.ID})
	assert.Equal(t, []string{"user:ada"}, r.To)
	assert.Equal(t, ask.ID, r.Correlation)
	d.ack("agent:eve", ask.ID)
	d.send("agent:eve", "43", messages.Draft{ReplyTo: ask.ID})
	assert.Equal(t, []string{"it is 42", "43"}, d.texts("user:ada", messages.Query{Correlation: ask.ID}))
	back := d.send("user:ada", "sure?", messages.Draft{ReplyTo: r.ID})
	assert.Equal(t, ask.ID, back.Correlation, "it is one conversation")
	_, err := d.Send(t.Context(), "agent:mallory", messages.Draft{ReplyTo: ask.ID, Payload: text("me too")})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err), "who was not asked does not learn who asked")
}

func testFilters(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	d.send("user:ada", "a", messages.Draft{Type: "task"}, "agent:bob")
	d.send("user:eve", "b", messages.Draft{Type: "error", Correlation: "c 1"}, "agent:bob")
	assert.Equal(t, []string{"a"}, d.texts("agent:bob", messages.Query{Type: "task"}))
	assert.Equal(t, []string{"b"}, d.texts("agent:bob", messages.Query{Sender: "user:eve"}))
	assert.Equal(t, []string{"b"}, d.texts("agent:bob", messages.Query{Correlation: "c 1"}))
	assert.Empty(t, d.texts("agent:bob", messages.Query{Type: "task", Sender: "user:eve"}))
	p := d.page("agent:bob", messages.Query{Heads: true})
	require.Len(t, p.Messages, 2)
	assert.Empty(t, p.Messages[0].Payload)
}

func testLife(t *testing.T, open Opener) {
	t.Helper()
	clock := NewClock()
	d := newTestBroker(t, open, messages.Config{Now: clock.Now})
	short := d.send("user:ada", "short", messages.Draft{TTL: time.Hour}, "agent:bob")
	d.send("user:ada", "long", messages.Draft{TTL: messages.MaxTTL}, "all")
	clock.Add(time.Hour - time.Second)
	assert.Equal(t, []string{"short", "long"}, d.texts("agent:bob", messages.Query{}))
	clock.Add(time.Second)
	assert.Equal(t, []string{"long"}, d.texts("agent:bob", messages.Query{}))
	assert.Equal(t, []string{short.ID}, d.ack("agent:bob", short.ID).Unknown)
	_, err := d.Send(t.Context(), "agent:bob", messages.Draft{ReplyTo: short.ID, Payload: text("late")})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	d.restart()
	assert.Equal(t, []string{"long"}, d.texts("agent:bob", messages.Query{}))
	clock.Add(messages.MaxTTL)
	assert.Empty(t, d.texts("agent:bob", messages.Query{}))
	for range 2 * 10 { // expired messages take no room
		d.send("user:ada", "x", messages.Draft{TTL: time.Second}, "agent:bob")
		clock.Add(time.Second)
	}
}

// A full inbox accepts a more urgent message in place of the least urgent one. The sender of the removed message is
// notified.
func testFull(t *testing.T, open Opener) {
	t.Helper()
	clock := NewClock()
	d := newTestBroker(t, open, messages.Config{Queue: 3, Now: clock.Now})
	d.send("user:ada", "urgent", priority(3), "agent:bob")
	old := d.send("user:ada", "old", priority(1), "agent:bob", "agent:eve")
	d.send("user:ada", "new", priority(1), "agent:bob")
	for _, p := range []int{0, 1} {
		draft := priority(p)
		draft.To, draft.Payload = []string{"agent:other", "agent:bob"}, text("no")
		_, err := d.Send(t.Context(), "user:eve", draft)
		assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
	}
	assert.Empty(t, d.texts("agent:other", messages.Query{}), "all of it is refused")
	r := d.send("user:eve", "more", priority(2), "agent:bob")
	assert.Equal(t, []string{old.ID}, r.Displaced)
	assert.Equal(t, []string{"urgent", "more", "new"}, d.texts("agent:bob", messages.Query{}))
	assert.Equal(t, []string{"old"}, d.texts("agent:eve", messages.Query{}), "she has room")
	told := d.page("user:ada", messages.Query{})
	require.Len(t, told.Messages, 1)
	assert.Equal(t, messages.System, told.Messages[0].Sender)
	assert.Equal(t, "error", told.Messages[0].Type)
	assert.Equal(t, old.ID, told.Messages[0].ReplyTo)
	assert.Contains(t, string(told.Messages[0].Payload), `"recipient":"agent:bob"`)
	d.restart()
	assert.Equal(t, []string{"urgent", "more", "new"}, d.texts("agent:bob", messages.Query{}))
	clock.Add(25 * time.Hour)
	d.send("user:eve", "room", priority(0), "agent:bob")
}

func testFullOfAll(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{Queue: 2, Messages: 4})
	first := d.send("user:ada", "1", messages.Draft{}, "all")
	d.send("user:ada", "2", messages.Draft{}, "all")
	d.ack("agent:bob", first.ID)
	_, err := d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"all"}, Payload: text("3")})
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
	r := d.send("user:ada", "3", priority(4), "all")
	assert.Equal(t, []string{first.ID}, r.Displaced)
	assert.Equal(t, []string{"3", "2"}, d.texts("agent:bob", messages.Query{}))
	d.send("user:ada", "4", messages.Draft{}, "agent:x")
	_, err = d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:y"}, Payload: text("5")})
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err), "two to all, the word to the sender, and one to x")
}

func testRestart(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	kept := d.send("user:ada", "kept", messages.Draft{}, "agent:bob")
	gone := d.send("user:ada", "gone", messages.Draft{}, "agent:bob")
	d.ack("agent:bob", gone.ID)
	for range 2 {
		d.restart()
		p := d.page("agent:bob", messages.Query{})
		require.Len(t, p.Messages, 1)
		assert.Equal(t, kept.ID, p.Messages[0].ID)
	}
}

// A new agent with the name of a removed one gets none of its messages, only those to all.
func testForget(t *testing.T, open Opener) {
	t.Helper()
	clock := NewClock()
	d := newTestBroker(t, open, messages.Config{Now: clock.Now})
	d.join("agent:bob", "ops")
	d.join("agent:eve", "ops")
	d.send("user:ada", "short", messages.Draft{TTL: time.Minute}, "agent:bob")
	d.send("user:ada", "direct", messages.Draft{}, "agent:bob")
	d.send("user:ada", "both", messages.Draft{}, "agent:bob", "agent:eve")
	d.send("user:ada", "group", messages.Draft{}, "group:ops")
	d.send("user:ada", "all", messages.Draft{}, "all")
	clock.Add(2 * time.Minute)
	for _, wrong := range []string{"", "group:ops", "all"} {
		assert.Equal(t, fault.Forbidden, fault.CodeOf(d.forget(wrong)), wrong)
	}
	require.NoError(t, d.forget("agent:bob"))
	require.NoError(t, d.forget("agent:nobody"))
	for range 2 {
		assert.Equal(t, []string{"all"}, d.texts("agent:bob", messages.Query{}))
		assert.Equal(t, []string{"both", "group", "all"}, d.texts("agent:eve", messages.Query{InOrder: true}))
		g, err := d.Group(t.Context(), "agent:bob", messages.GroupChange{})
		require.NoError(t, err)
		assert.Empty(t, g.Groups)
		d.restart()
	}
	d.join("agent:bob", "ops")
	d.send("user:ada", "new", messages.Draft{}, "agent:bob", "group:ops")
	assert.Equal(t, []string{"all", "new"}, d.texts("agent:bob", messages.Query{InOrder: true}))
}

// A wait ends with the first message for the reader, or when its time has passed.
func testWait(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	assert.Empty(t, d.texts("agent:bob", messages.Query{Wait: time.Millisecond}))
	d.join("agent:bob", "ops")
	for _, to := range []string{"agent:bob", "all", "group:ops"} {
		got := make(chan messages.Page, 1)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		go func() {
			p, _ := d.Inbox(ctx, "agent:bob", messages.Query{Wait: patience, Type: "task"})
			got <- p
		}()
		d.send("user:ada", "not this one", messages.Draft{Type: "error"}, to)
		r := d.send("user:ada", "wake up", messages.Draft{Type: "task"}, to)
		p := <-got
		stop()
		require.Len(t, p.Messages, 1, to)
		assert.Equal(t, r.ID, p.Messages[0].ID)
		d.ack("agent:bob", r.ID)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := d.Inbox(ctx, "agent:eve", messages.Query{Wait: patience, Type: "patch"})
	assert.Equal(t, fault.Cancelled, fault.CodeOf(err))
}

// Many senders are concurrent: nothing is lost, and the messages of each sender arrive in order.
func testMany(t *testing.T, open Opener) {
	t.Helper()
	const senders, each, readers = 100, 5, 4
	d := newTestBroker(t, open, messages.Config{})
	var group sync.WaitGroup
	failures := make(chan error, senders*each)
	for s := range senders {
		group.Go(func() {
			for i := range each {
				_, err := d.Send(t.Context(), fmt.Sprint("agent:s", s), messages.Draft{
					To: []string{fmt.Sprint("agent:r", s%readers), "agent:log"}, Payload: text(strconv.Itoa(i)),
				})
				failures <- err
			}
		})
	}
	seen := map[string][]string{}
	q := messages.Query{InOrder: true, Limit: 100, Wait: patience}
	for n := 0; n < senders*each; {
		p := d.page("agent:log", q)
		require.NotEmpty(t, p.Messages, "only %d came", n)
		for i, s := range textsOf(t, p) {
			from := p.Messages[i].Sender
			seen[from] = append(seen[from], s)
			n++
		}
		q.After = p.Next
	}
	group.Wait()
	close(failures)
	for err := range failures {
		require.NoError(t, err)
	}
	require.Len(t, seen, senders)
	for from, got := range seen {
		assert.Equal(t, []string{"0", "1", "2", "3", "4"}, got, from)
	}
	for r := range readers {
		assert.Equal(t, senders*each/readers, d.page(fmt.Sprint("agent:r", r), messages.Query{}).Waiting)
	}
}

func testRefusals(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	long := strings.Repeat("x", 300)
	for field, draft := range map[string]messages.Draft{
		"to":             {Payload: text("x"), To: []string{"bob"}},
		"payload":        {To: []string{"all"}},
		"type":           {Payload: text("x"), To: []string{"all"}, Type: "No Type"},
		"ttl":            {Payload: text("x"), To: []string{"all"}, TTL: time.Millisecond},
		"exclude":        {Payload: text("x"), To: []string{"all"}, Exclude: []string{"group:x"}},
		"correlation_id": {Payload: text("x"), To: []string{"all"}, Correlation: long},
		"reply_to":       {Payload: text("x"), To: []string{"all"}, ReplyTo: "x"},
		"key":            {Payload: text("x"), To: []string{"all"}, Key: strings.Repeat("x", 2000)},
		"priority":       {Payload: text("x"), To: []string{"all"}, Priority: new(5)},
	} {
		_, err := d.Send(t.Context(), "user:ada", draft)
		require.Error(t, err, field)
		assert.Equal(t, field, fault.From(err).Field)
	}
	_, err := d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: text(strings.Repeat("x", messages.MaxSize))})
	assert.Equal(t, "SIZE_LIMIT_EXCEEDED", fault.From(err).Reason)
	_, err = d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: text(strings.Repeat("x", messages.MaxSize-600))})
	require.NoError(t, err)
	for _, nobody := range []string{"", "all", "group:x", "system:x", "task:TASK_1"} {
		_, err := d.Send(t.Context(), nobody, messages.Draft{To: []string{"all"}, Payload: text("x")})
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), nobody)
		_, err = d.Inbox(t.Context(), nobody, messages.Query{})
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), nobody)
	}
}

func testSecrets(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{FindSecret: func(data []byte) (string, bool) { return "canary", strings.Contains(string(data), "hunter2") }})
	_, err := d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: text("it is hunter2")})
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(err))
	_, err = d.Send(t.Context(), "user:ada", messages.Draft{To: []string{"agent:bob"}, Payload: text("x"), Correlation: "hunter2"})
	assert.Equal(t, fault.SecretDetected, fault.CodeOf(err))
	assert.Empty(t, d.texts("agent:bob", messages.Query{}))
}

// A page is bounded in bytes, whatever its limit.
func testPages(t *testing.T, open Opener) {
	t.Helper()
	d := newTestBroker(t, open, messages.Config{})
	for range 8 {
		d.send("user:ada", strings.Repeat("x", 200<<10), messages.Draft{}, "agent:bob")
	}
	p := d.page("agent:bob", messages.Query{InOrder: true, Limit: 100})
	assert.Len(t, p.Messages, 5)
	assert.Equal(t, 8, p.Waiting)
	assert.True(t, p.More)
	p = d.page("agent:bob", messages.Query{After: p.Next, Limit: 100})
	assert.Len(t, p.Messages, 3)
	assert.False(t, p.More)
}
