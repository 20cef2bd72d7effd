package rest_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/httpapi/rest"
)

// A client that connects again gets each commit once, without a gap, and is told when nothing more comes.
func TestFollowTask(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := "/tasks/" + string(adasTask) + "/events"
	s.api.commit(false)
	s.api.commit(false)
	in := s.stream(rest.Viewer, path)
	assert.Equal(t, "1", in.next().id)
	second := in.next()
	assert.Equal(t, event{"2", "commit", second.data}, second)
	var commit api.CommitView
	require.NoError(t, json.Unmarshal([]byte(second.data), &commit))
	assert.EqualValues(t, 2, commit.Rev)
	s.api.commit(false)
	assert.Equal(t, "3", in.next().id, "the stream is live")
	_ = in.body.Close()

	s.api.commit(false)
	in = s.stream(rest.Viewer, path+"?after=1", "Last-Event-ID", "3")
	assert.Equal(t, "4", in.next().id)
	s.api.commit(true)
	assert.Equal(t, "5", in.next().id)
	assert.Equal(t, "end", in.next().name)
	assert.False(t, in.in.Scan(), "the stream ends")

	assert.Equal(t, "5", s.stream(rest.Viewer, path+"?after=4").next().id)
	got := s.as(rest.Viewer, http.MethodGet, path, "", "Last-Event-ID", "5")
	assert.Equal(t, http.StatusNoContent, got.Status, "a browser does not connect again")
}

// An identity may have only so many streams, and closing one makes room.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var open []*eventsOf
	for range rest.MaxStreamsEach {
		open = append(open, s.stream(rest.Viewer, "/events"))
	}
	got := s.as(rest.Viewer, http.MethodGet, "/events", "")
	require.Equal(t, http.StatusTooManyRequests, got.Status)
	code, _ := got.problem(t)
	assert.Equal(t, "RATE_LIMITED", code)
	assert.NotEmpty(t, got.Header.Get("Retry-After"))
	s.stream(rest.Operator, "/events") // another identity has its own
	_ = open[0].body.Close()
	require.Eventually(t, func() bool {
		answer := s.open(http.MethodGet, rest.Prefix+"/events", "", "Authorization", "Bearer viewer")
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, 10*time.Second, 10*time.Millisecond)
}

// A listener of the node gets the changed tasks; a client that sees only its own tasks gets only those.
func TestFollowNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	all, own := s.stream(rest.Operator, "/events"), s.stream(rest.Agent, "/events")
	inbox := all.next()
	assert.Equal(t, "inbox", inbox.name)
	assert.JSONEq(t, `{"approvals":2,"questions":5,"in_doubt":0,"dead":3,"stuck":1}`, inbox.data)
	s.feed.Changed(api.Summary{ID: adasTask, Requestor: "user:ada"})
	s.feed.Changed(api.Summary{ID: botsTask, Requestor: "agent:bot", Reason: "waits\nfor you"})
	for _, want := range []events.TaskID{adasTask, botsTask} {
		e := all.next()
		var line api.Summary
		require.NoError(t, json.Unmarshal([]byte(e.data), &line))
		assert.Equal(t, "task", e.name)
		assert.Equal(t, want, line.ID)
	}
	e := own.next()
	assert.Equal(t, "task", e.name)
	assert.Contains(t, e.data, botsTask)

	s.rest.Close()
	for own.in.Scan() { // the position after the event
		assert.NotContains(t, own.in.Text(), "event:")
	}
	require.NoError(t, own.in.Err(), "a node that stops ends its streams")
}

// A client that connects again gets what has changed since its position, or is told to start over.
func TestResumeNode(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	began := time.Now()
	first := s.stream(rest.Operator, "/events")
	at := first.next().id
	require.Regexp(t, `^\d{16}-[0-9a-f]{8}$`, at)
	micros, feed, _ := strings.Cut(at, "-")
	later := func(by time.Duration) string {
		n, err := strconv.ParseInt(micros, 10, 64)
		require.NoError(t, err)
		return strconv.FormatInt(n+by.Microseconds(), 10)
	}
	for name, c := range map[string]struct {
		path, header string
		resumes      bool
	}{
		"of this feed":              {"/events", at, true},
		"in the query":              {"/events?after=" + at, "", true},
		"the header precedes":       {"/events?after=x", at, true},
		"of an earlier feed":        {"/events", micros + "-00000000", true},
		"of a clock that was ahead": {"/events", later(time.Hour) + "-00000000", false},
		"no position":               {"/events", "0", false},
		"a wrong time":              {"/events", "-5-" + feed, false},
		"not a number":              {"/events", "now-" + feed, false},
	} {
		e := s.stream(rest.Operator, c.path, "Last-Event-ID", c.header).next()
		if !c.resumes {
			assert.Equal(t, "reset", e.name, name)
			continue
		}
		require.Equal(t, "task", e.name, name)
		assert.Contains(t, e.data, botsTask, name)
		asked, ok := s.api.last("changed").(api.ListRequest)
		require.True(t, ok, name)
		assert.WithinDuration(t, began, asked.ChangedSince, time.Minute, name)
	}
	s.stream(rest.Agent, "/events", "Last-Event-ID", at).next()
	asked, _ := s.api.last("changed").(api.ListRequest)
	assert.Equal(t, "agent:bot", asked.Requestor, "who sees only its own tasks gets those alone")
	s.api.next = "more"
	assert.Equal(t, "reset", s.stream(rest.Operator, "/events", "Last-Event-ID", at).next().name, "too much has changed")
}

// A position is never later than a change that was not passed on: not while the log waits, nor while changes are queued.
func TestPositions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lag := time.Duration(0)
		f := rest.NewFeed(rest.FeedConfig{Lag: func() time.Duration { return lag }})
		defer f.Close()
		read, end := rest.Listen(f)
		defer end()
		now := time.Now()
		for _, lag = range []time.Duration{0, time.Second, time.Minute} {
			at, known := rest.Position(f)
			assert.True(t, known)
			assert.WithinRange(t, at, now.Add(-lag-5*time.Second), now.Add(-lag-time.Second))
		}
		for range 100 {
			f.Changed(api.Summary{ID: adasTask})
			_, known := rest.Position(f)
			batches, _ := read()
			assert.False(t, known && len(batches) == 0, "a position says that the change was passed on")
			<-time.After(time.Millisecond)
			read()
		}
		f.Changed(api.Summary{ID: adasTask})
		<-time.After(time.Second)
		_, known := rest.Position(f)
		assert.True(t, known)
	})
}

// Without listeners nothing is collected. Of one task, only the newest change is passed on.
func TestFeedCollects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := rest.NewFeed(rest.FeedConfig{})
		defer f.Close()
		for range 10_000 {
			f.Changed(api.Summary{ID: adasTask})
		}
		read, end := rest.Listen(f)
		defer end()
		<-time.After(time.Second)
		batches, gap := read()
		assert.Empty(t, batches)
		assert.False(t, gap)

		f.Changed(api.Summary{ID: adasTask, Reason: "at once"})
		synctest.Wait()
		batches, _ = read()
		require.Len(t, batches, 1, "a change after a quiet time does not wait")
		for i := range 3000 {
			f.Changed(api.Summary{ID: adasTask, Reason: strconv.Itoa(i)})
		}
		<-time.After(time.Second)
		batches, gap = read()
		require.Len(t, batches, 1)
		assert.Equal(t, 1, strings.Count(batches[0], "event: task\n"))
		assert.Contains(t, batches[0], "2999")
		assert.False(t, gap)
	})
}

// Changes wait longer, and are passed on together, the more listeners there are.
func TestFeedPauses(t *testing.T) {
	t.Parallel()
	for listeners, want := range map[int]int{1: 100, 20: 5, 1000: 1} {
		synctest.Test(t, func(t *testing.T) {
			f := rest.NewFeed(rest.FeedConfig{})
			defer f.Close()
			read, end := rest.Listen(f)
			defer end()
			for range listeners - 1 {
				_, end := rest.Listen(f)
				defer end()
			}
			for i := range 100 {
				f.Changed(api.Summary{ID: events.TaskID("TASK_" + strconv.Itoa(i))})
				<-time.After(time.Millisecond)
			}
			batches, gap := read()
			assert.InDelta(t, want, len(batches), 1)
			assert.False(t, gap)
		})
	}
}

// A listener that does not read starts over, in bounded memory; so do all when more changes come at once than are collected.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := rest.NewFeed(rest.FeedConfig{})
		defer f.Close()
		read, end := rest.Listen(f)
		defer end()
		change := func(n, at int) {
			for i := range n {
				f.Changed(api.Summary{ID: events.TaskID("TASK_" + strconv.Itoa(at+i))})
			}
			<-time.After(time.Second)
		}
		change(600, 0)
		change(600, 1000)
		batches, gap := read()
		assert.Less(t, strings.Count(strings.Join(batches, ""), "event: task\n"), 1001)
		assert.True(t, gap)

		f.Changed(api.Summary{ID: adasTask})
		synctest.Wait()
		_, _ = read()
		change(3000, 2000)
		batches, gap = read()
		assert.Len(t, batches, 1)
		assert.False(t, gap, "a listener gets one batch, however large it is")
		f.Changed(api.Summary{ID: adasTask})
		synctest.Wait() // the feed pauses, so that it collects all that follows
		_, _ = read()
		change(6000, 5000)
		batches, gap = read()
		assert.Empty(t, batches)
		assert.True(t, gap)
		change(1, 0)
		batches, gap = read()
		assert.Len(t, batches, 1)
		assert.False(t, gap)
	})
}
