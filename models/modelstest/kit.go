package modelstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/wire"
)

// Kit configures the tests of a provider.
type Kit struct {
	// Wire is the name of its protocol.
	Wire string
	// New returns the provider.
	New func(c wire.Config) models.Provider
	// Opaque are opaque parts of the protocol that an answer with calls begins with.
	Opaque []models.Part
	// Malformed is set if the protocol can carry arguments that are no object.
	Malformed bool
}

// Run tests a provider.
func Run(t *testing.T, kit Kit) {
	t.Helper()
	t.Run("dialogues", kit.dialogues)
	t.Run("result of a call", kit.resultOfCall)
	t.Run("ids", kit.idsAreUnique)
	t.Run("refused requests", kit.refusedRequests)
	t.Run("credential", kit.credential)
	t.Run("cut", kit.cut)
	t.Run("faults", kit.faults)
	t.Run("huge answer", kit.hugeAnswer)
	t.Run("slow", kit.slow)
	t.Run("cancelled", kit.cancelled)
	t.Run("redirect", kit.redirect)
	t.Run("connection", kit.connection)
	t.Run("no server", kit.noServer)
	t.Run("fields and headers", kit.fieldsAndHeaders)
}

// connection: the next request uses the connection of the one before.
func (k Kit) connection(t *testing.T) {
	t.Parallel()
	s := NewServer(t, func(Seen) Reply { return Reply{Answer: Said(models.StopEnd, text("ok"))} })
	c, dials := k.config(t, s.BaseURL(k.Wire)), 0
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++ // the requests follow each other
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	c.Client = &http.Client{Transport: transport}
	p := k.New(c)
	for range 3 {
		_, _, err := ask(t, p, Question("Hello"))
		require.Nil(t, err)
	}
	assert.Equal(t, 1, dials)
}

// short is how long the provider waits for a stalled server in tests.
const short = 100 * time.Millisecond

// open returns a provider of a server that gives the replies in turn, the last one again and again.
func (k Kit) open(tb testing.TB, replies ...Reply) (models.Provider, *[]Seen) {
	tb.Helper()
	seen := &[]Seen{}
	s := NewServer(tb, func(r Seen) Reply {
		*seen = append(*seen, r) // the requests of a test follow each other
		return replies[min(r.N, len(replies))-1]
	})
	return k.New(k.config(tb, s.BaseURL(k.Wire))), seen
}

// config returns the configuration for a server. Its connections end with the test.
func (k Kit) config(tb testing.TB, base string) wire.Config {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return wire.Config{
		BaseURL: base, Key: func() (string, error) { return Key, nil }, Client: &http.Client{Transport: transport}, Idle: time.Minute,
	}
}

// Question returns a request that says text.
func Question(text string) models.Request {
	return models.Request{
		Model: "test", System: "Be brief.", MaxTokens: 1000, Key: "task-1.t1",
		Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: text}}}},
		Tools:    []models.Tool{{Name: "FILE_READ", Description: "Read a file", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
	}
}

// Said returns an answer that ends with stop.
func Said(stop models.Stop, parts ...models.Part) models.Answer {
	return models.Answer{Message: models.Message{Role: models.Model, Parts: parts}, Stop: stop, Usage: models.Usage{Input: 70, CacheRead: 30, Output: 12}}
}

func text(s string) models.Part { return models.Part{Text: s} }

func call(id, args string) models.Part {
	return models.Part{Call: &models.Call{ID: id, Name: "FILE_READ", Args: args}}
}

// heard joins the texts of deltas.
func heard(deltas []models.Delta) string {
	var all strings.Builder
	for _, d := range deltas {
		all.WriteString(d.Text)
	}
	return all.String()
}

// ask sends a request and checks what holds for every answer and every error.
func ask(tb testing.TB, p models.Provider, r models.Request) (models.Answer, []models.Delta, *models.Error) {
	tb.Helper()
	var deltas []models.Delta
	a, err := p.Stream(tb.Context(), r, func(d models.Delta) { deltas = append(deltas, d) })
	if err != nil {
		return a, deltas, checked(tb, err)
	}
	assert.Equal(tb, TextOf(a), heard(deltas), "the deltas are the answer")
	var calls, begun []string
	for _, part := range a.Message.Parts {
		if part.Call != nil {
			calls = append(calls, part.Call.Name)
		}
	}
	for _, d := range deltas {
		if d.Call != "" {
			begun = append(begun, d.Call)
		}
	}
	assert.Equal(tb, calls, begun, "each call is heard once")
	return a, deltas, nil
}

// TextOf returns the text of an answer.
func TextOf(a models.Answer) string {
	var all strings.Builder
	for _, p := range a.Message.Parts {
		all.WriteString(p.Text)
	}
	return all.String()
}

// checked returns an error as *models.Error, without credentials.
func checked(tb testing.TB, err error) *models.Error {
	tb.Helper()
	var known *models.Error
	require.ErrorAs(tb, err, &known)
	assert.NotContains(tb, fmt.Sprintf("%+v", *known), Key[len("sk-"):], "a credential in an error")
	assert.NotEmpty(tb, known.Message)
	assert.LessOrEqual(tb, len(known.Message), 600)
	return known
}

// dialogues checks answers of all kinds.
func (k Kit) dialogues(t *testing.T) {
	t.Parallel()
	ten := []models.Part{text("Ten at once.")}
	for i := range 10 {
		ten = append(ten, call(fmt.Sprintf("id_%d", i), fmt.Sprintf(`{"path":"/w/%d.go"}`, i)))
	}
	cases := map[string]models.Answer{
		"text":           Said(models.StopEnd, text("The file adds the prices.")),
		"characters":     Said(models.StopEnd, text("Prüfung: ❤️ — 価格を足す 🧮\n\n\ttab \\ \"quoted\" </s>\u2028x")),
		"call":           Said(models.StopCalls, call("id_0", `{"path":"/w/shop.go"}`)),
		"call, no args":  Said(models.StopCalls, call("id_0", `{}`)),
		"parallel calls": Said(models.StopCalls, ten...),
		"length":         Said(models.StopLength, text("Once upon a")),
		"refusal":        Said(models.StopRefused),
		"late refusal":   Said(models.StopRefused, text("I would")),
		"other reason":   Said(models.StopOther, text("Hm.")),
		"opaque":         Said(models.StopCalls, append(k.Opaque, call("id_0", `{"path":"a"}`))...),
	}
	if k.Malformed {
		cases["malformed arguments"] = Said(models.StopCalls, call("id_0", `{"path": "/w/sh`), call("id_1", `[1, 2]`), call("id_2", `read it`))
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{1, 8, 10_000} {
				p, _ := k.open(t, Reply{Answer: want, Piece: piece})
				got, _, err := ask(t, p, Question("go"))
				require.Nil(t, err)
				assert.NotEmpty(t, got.Model)
				assert.NotEmpty(t, got.ID)
				got.Model, got.ID = "", ""
				assert.Equal(t, want, got)
			}
		})
	}
}

// resultOfCall checks that a call, its result and opaque parts are sent back.
func (k Kit) resultOfCall(t *testing.T) {
	t.Parallel()
	p, seen := k.open(t,
		Reply{Answer: Said(models.StopCalls, append(k.Opaque, call("id_77", `{"path":"/w/shop.go"}`))...)},
		Reply{Answer: Said(models.StopEnd, text("It adds."))})
	r := Question("What does it do?")
	a, _, err := ask(t, p, r)
	require.Nil(t, err)
	r.Messages = append(r.Messages, a.Message, models.Message{Role: models.User, Parts: []models.Part{
		{Result: &models.Result{ID: "id_77", Name: "FILE_READ", Content: "package shop // <&>"}}, text("Go on."),
	}})
	_, _, err = ask(t, p, r)
	require.Nil(t, err)
	body := string((*seen)[1].Body)
	for _, want := range []string{"id_77", "FILE_READ", "/w/shop.go", "package shop // <&>", "Go on.", "What does it do?", "Be brief."} {
		assert.Contains(t, body, want)
	}
	for _, part := range k.Opaque {
		assert.Contains(t, compact(t, (*seen)[1].Body), compact(t, part.Opaque.Data), "opaque parts go back unchanged")
	}
	assert.Less(t, strings.Index(body, "package shop"), strings.Index(body, "Go on."), "the result comes first")
}

// compact returns JSON in one form.
func compact(tb testing.TB, data json.RawMessage) string {
	tb.Helper()
	var value any
	require.NoError(tb, json.Unmarshal(data, &value))
	out, err := json.Marshal(value)
	require.NoError(tb, err)
	return strings.Trim(string(out), "{}")
}

// idsAreUnique checks that a call does not get an id that the conversation has.
func (k Kit) idsAreUnique(t *testing.T) {
	t.Parallel()
	p, _ := k.open(t, Reply{Answer: Said(models.StopCalls, call("id_0", "{}"), call("id_0", "{}"), call("id_1", "{}"))})
	r := Question("again")
	r.Messages = append(r.Messages,
		models.Message{Role: models.Model, Parts: []models.Part{call("id_1", "{}")}},
		models.Message{Role: models.User, Parts: []models.Part{{Result: &models.Result{ID: "id_1", Name: "FILE_READ", Content: "x"}}}})
	a, _, err := ask(t, p, r)
	require.Nil(t, err)
	used := map[string]bool{"id_1": true}
	for _, part := range a.Message.Parts {
		assert.False(t, used[part.Call.ID], part.Call.ID)
		used[part.Call.ID] = true
	}
	assert.Len(t, used, 4)
}

// refusedRequests checks errors by status.
func (k Kit) refusedRequests(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, test := range map[string]struct {
		reply    Reply
		kind     models.Kind
		min, max time.Duration
		message  string
	}{
		"unauthorized":       {Reply{Status: 401, Message: "Incorrect API key: " + Key}, models.Unauthorized, 0, 0, "401"},
		"forbidden":          {Reply{Status: 403, Message: "no access with " + Key}, models.Unauthorized, 0, 0, "no access"},
		"rate limit":         {Reply{Status: 429, Message: "slow down"}, models.RateLimited, 0, 0, "slow down"},
		"seconds":            {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After": "7"}}, models.RateLimited, 7 * time.Second, 7 * time.Second, "slow down"},
		"date":               {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After": soon}}, models.RateLimited, 30 * time.Minute, time.Hour, ""},
		"milliseconds":       {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}}, models.RateLimited, 1500 * time.Millisecond, 1500 * time.Millisecond, ""},
		"nonsense":           {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After": "-1"}}, models.RateLimited, 0, 0, ""},
		"no number":          {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After": "NaN"}}, models.RateLimited, 0, 0, ""},
		"for ever":           {Reply{Status: 429, Message: "slow down", Headers: map[string]string{"Retry-After": "1e300"}}, models.RateLimited, 24 * time.Hour, 24 * time.Hour, ""},
		"overloaded":         {Reply{Status: 529, Message: "overloaded", Headers: map[string]string{"Retry-After": "3"}}, models.Overloaded, 3 * time.Second, 3 * time.Second, "overloaded"},
		"server error":       {Reply{Status: 500, Message: "oops"}, models.Overloaded, 0, 0, "oops"},
		"bad gateway":        {Reply{Status: 502, Message: "oops", ContentType: "text/html"}, models.Overloaded, 0, 0, "502"},
		"unavailable":        {Reply{Status: 503, Message: "oops"}, models.Overloaded, 0, 0, "oops"},
		"bad request":        {Reply{Status: 400, Message: "temperature is too hot"}, models.Invalid, 0, 0, "too hot"},
		"no such model":      {Reply{Status: 404, Message: "no such model"}, models.Invalid, 0, 0, "no such model"},
		"request too large":  {Reply{Status: 413, Message: "too large"}, models.TooLong, 0, 0, ""},
		"long message":       {Reply{Status: 400, Message: strings.Repeat("é", 5000)}, models.Invalid, 0, 0, "…"},
		"control characters": {Reply{Status: 400, Message: "a\x1b[31mb\r\nc"}, models.Invalid, 0, 0, "a [31mb  c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := k.open(t, test.reply)
			_, _, err := ask(t, p, Question("go"))
			require.NotNil(t, err)
			assert.Equal(t, test.kind, err.Kind)
			assert.Equal(t, test.reply.Status, err.Status)
			assert.GreaterOrEqual(t, err.After, test.min)
			assert.LessOrEqual(t, err.After, test.max)
			assert.Contains(t, err.Message, test.message)
		})
	}
}

// credential checks that the credential is sent, and asked for with each request.
func (k Kit) credential(t *testing.T) {
	t.Parallel()
	s := NewServer(t, func(Seen) Reply { return Reply{Answer: Said(models.StopEnd, text("ok"))} })
	c := k.config(t, s.BaseURL(k.Wire))
	c.Key = func() (string, error) { return "sk-wrong", nil }
	_, _, err := ask(t, k.New(c), Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Unauthorized, err.Kind)

	c.Key = func() (string, error) { return "", errors.New("env:KEY is not set") }
	_, _, err = ask(t, k.New(c), Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Unauthorized, err.Kind)
	assert.Contains(t, err.Message, "env:KEY is not set")
}

// cut breaks the connection in front of each event.
func (k Kit) cut(t *testing.T) {
	t.Parallel()
	whole := Said(models.StopCalls, text("I read it first, and then more."), call("id_0", `{"path":"/w/shop.go"}`))
	for _, fault := range []Fault{Cut, End} {
		n := len(dialectOf(k.Wire).frames(whole, 8))
		for at := range n {
			p, _ := k.open(t, Reply{Answer: whole, Fault: fault, At: at})
			a, deltas, err := ask(t, p, Question("go"))
			assert.True(t, strings.HasPrefix(TextOf(whole), heard(deltas)))
			if err != nil {
				assert.Equal(t, models.Transport, err.Kind, "%s in front of event %d of %d: %v", fault, at, n, err)
				continue
			}
			assert.GreaterOrEqual(t, at, n-2, "%s in front of event %d of %d passes for an answer", fault, at, n)
			assert.Equal(t, whole.Message, a.Message)
			if fault == Cut {
				assert.Equal(t, whole.Usage, a.Usage, "an answer without its usage passes for complete")
			}
		}
	}
}

func dialectOf(name string) dialect {
	for _, d := range dialects() {
		if d.wire == name {
			return d
		}
	}
	panic("no protocol " + name)
}

// faults checks what goes wrong in the midst of a stream.
func (k Kit) faults(t *testing.T) {
	t.Parallel()
	whole := Said(models.StopEnd, text("I read it first, and then more."))
	for name, test := range map[string]struct {
		reply   Reply
		kind    models.Kind // "" for an answer
		message string
	}{
		"stall at once":     {Reply{Fault: Stall, At: 0}, models.Transport, "sent nothing for 100ms"},
		"stall":             {Reply{Fault: Stall, At: 4}, models.Transport, "sent nothing for 100ms"},
		"bad json":          {Reply{Fault: BadJSON, At: 4}, models.Transport, "malformed event"},
		"bad sse":           {Reply{Fault: BadSSE, At: 4}, "", ""},
		"unknown events":    {Reply{Fault: Unknown, At: 1}, "", ""},
		"long line":         {Reply{Fault: LongLine, At: 4}, models.TooLarge, "longer than the limit"},
		"failure":           {Reply{Fault: Failure, At: 4}, models.Overloaded, "overloaded, try later"},
		"endless text":      {Reply{Fault: Endless, At: 4}, models.TooLarge, "more than 16777216 bytes"},
		"endless comments":  {Reply{Fault: EndlessComments, At: 4}, models.TooLarge, "the stream has more than"},
		"page":              {Reply{ContentType: "text/html"}, models.Invalid, `type "text/html"`},
		"no type of events": {Reply{ContentType: "application/json"}, models.Invalid, "the address of the interface"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.reply.Answer = whole
			s := NewServer(t, func(Seen) Reply { return test.reply })
			c := k.config(t, s.BaseURL(k.Wire))
			if test.reply.Fault == Stall {
				c.Idle = short
			}
			a, _, err := ask(t, k.New(c), Question("go"))
			if test.kind == "" {
				require.Nil(t, err)
				assert.Equal(t, whole.Message, a.Message)
				return
			}
			require.NotNil(t, err)
			assert.Equal(t, test.kind, err.Kind, err.Message)
			assert.Contains(t, err.Message, test.message)
		})
	}
}

// hugeAnswer checks an answer that is just below the limit.
func (k Kit) hugeAnswer(t *testing.T) {
	t.Parallel()
	want := Said(models.StopEnd, text(strings.Repeat("0123456789abcdef", wire.MaxAnswer/16)))
	p, _ := k.open(t, Reply{Answer: want, Piece: 64 << 10})
	a, _, err := ask(t, p, Question("go"))
	require.Nil(t, err)
	assert.Len(t, TextOf(a), wire.MaxAnswer)

	want.Message.Parts = append(want.Message.Parts, text("!"))
	p, _ = k.open(t, Reply{Answer: want, Piece: 64 << 10})
	_, _, err = ask(t, p, Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.TooLarge, err.Kind)
}

// slow checks that a stream may last long, but not be silent for long.
func (k Kit) slow(t *testing.T) {
	t.Parallel()
	body := dialectOf(k.Wire).stream(Said(models.StopEnd, text("slowly")))
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a, err := Canned{Body: body, Pause: wire.DefaultIdle - time.Second}.Ask(t, k)
		require.Nil(t, err)
		assert.Equal(t, "slowly", TextOf(a))
		assert.Greater(t, time.Since(start), 5*wire.DefaultIdle)
		_, err = Canned{Body: body, Pause: wire.DefaultIdle + time.Second}.Ask(t, k)
		require.NotNil(t, err)
		assert.Equal(t, models.Error{Kind: models.Transport, Message: "the provider sent nothing for 5m0s"}, *err)
	})
}

// cancelled checks that a request ends with its context.
func (k Kit) cancelled(t *testing.T) {
	t.Parallel()
	p, _ := k.open(t, Reply{Answer: Said(models.StopEnd, text("A long story about prices, and about what became of them.")), Fault: Stall, At: 5})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err := p.Stream(ctx, Question("go"), func(models.Delta) { cancel() })
	require.Error(t, err)
	known := checked(t, err)
	assert.Equal(t, models.Transport, known.Kind)
	assert.Equal(t, "context canceled", known.Message)
}

// redirect checks that the credential goes to no other server.
func (k Kit) redirect(t *testing.T) {
	t.Parallel()
	var stolen []Seen
	other := NewServer(t, func(s Seen) Reply {
		stolen = append(stolen, s)
		return Reply{}
	})
	p, _ := k.open(t, Reply{Status: http.StatusTemporaryRedirect, Message: "over there", Headers: map[string]string{"Location": other.BaseURL(k.Wire) + "/messages"}})
	_, _, err := ask(t, p, Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Invalid, err.Kind)
	assert.Empty(t, stolen)
}

// noServer checks that an address where nothing listens is an error of its own kind: nothing was billed.
func (k Kit) noServer(t *testing.T) {
	t.Parallel()
	_, _, err := ask(t, k.New(k.config(t, "http://127.0.0.1:1/v1?key="+Key)), Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Unreachable, err.Kind)
	_, _, err = ask(t, k.New(k.config(t, "http://127.0.0.1:port/"+Key)), Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Invalid, err.Kind)
	assert.Contains(t, err.Message, "the base URL")
}

// fieldsAndHeaders checks what the configuration adds to a request, and that headers are in no error.
func (k Kit) fieldsAndHeaders(t *testing.T) {
	t.Parallel()
	var seen Seen
	s := NewServer(t, func(r Seen) Reply {
		seen = r
		return Reply{Status: 400, Message: "no: cookie-of-mine, Bearer sk-other-1, sk-other-1"}
	})
	c := k.config(t, s.BaseURL(k.Wire)+"/")
	c.Headers = func() (map[string]string, error) {
		return map[string]string{"X-Proxy": "cookie-of-mine", "X-Other": "Bearer sk-other-1"}, nil
	}
	c.Fields = map[string]json.RawMessage{"effort": json.RawMessage(`{"level":"high"}`)}
	_, _, err := ask(t, k.New(c), Question("go"))
	require.NotNil(t, err)
	assert.Contains(t, err.Message, "no: ***, ***, ***")
	assert.Equal(t, "cookie-of-mine", seen.Headers.Get("X-Proxy"))
	var body struct{ Effort struct{ Level string } }
	require.NoError(t, json.Unmarshal(seen.Body, &body))
	assert.Equal(t, "high", body.Effort.Level)

	c.Headers = func() (map[string]string, error) { return nil, errors.New("the variable X is not set") }
	_, _, err = ask(t, k.New(c), Question("go"))
	require.NotNil(t, err)
	assert.Equal(t, models.Error{Kind: models.Unauthorized, Message: "a header cannot be read: the variable X is not set"}, *err)
}
