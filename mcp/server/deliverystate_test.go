package server

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The streams of the states below: a standing one, two of requests, and one that has ended.
const (
	standing streamNo = iota + 1
	firstRequest
	secondRequest
	ended
)

// situations are all that there are of two questions.
func situations() (all []deliveryState) {
	states := 2 * 5 * 2 * 2 // open or not, sent to none or one of four streams, declined or not, its answer accepted or not
	for _, requests := range [][]streamNo{nil, {firstRequest}, {firstRequest, secondRequest}} {
		for n := range 4 * states * states {
			s := deliveryState{knowsTask: n%2 == 1, requests: requests, sent: map[string]streamNo{}, declined: map[string]bool{}, accepted: map[string]bool{}}
			if n/2%2 == 1 {
				s.standing = standing
			}
			for i, question := range []string{"a", "b"} {
				state := n / 4
				if i == 1 {
					state /= states
				}
				s.with(question, state%states)
			}
			all = append(all, s)
		}
	}
	return all
}

func (s *deliveryState) with(question string, state int) {
	if state%2 == 1 {
		s.open = append(s.open, question)
	}
	if to := streamNo(state / 2 % 5); to != 0 {
		s.sent[question] = to
	}
	s.declined[question], s.accepted[question] = state/10%2 == 1, state/20 == 1
}

// after is the situation when all that was dealt was sent.
func (s deliveryState) after() deliveryState {
	send, withdraw := s.plan()
	handed := map[string]streamNo{}
	maps.Copy(handed, s.sent)
	for _, d := range send {
		handed[d.question] = d.to
	}
	for _, question := range withdraw {
		delete(handed, question)
	}
	s.sent = handed
	return s
}

// An open question is sent to the client whenever the client reads a stream on which it may be sent.
func TestDealLosesNoQuestion(t *testing.T) {
	t.Parallel()
	all := situations()
	require.Len(t, all, 19200)
	for _, before := range all {
		send, withdraw := before.plan()
		after := before.after()
		at := fmt.Sprintf("%+v", before)
		for _, question := range before.open {
			reached := before.isOpen(before.sent[question])
			may := len(before.requests) > 0 || before.knowsTask && before.standing != 0
			assert.Equal(t, reached || may && !before.declined[question] && !before.accepted[question], after.isOpen(after.sent[question]), "%s of %s", question, at)
			assert.NotContains(t, withdraw, question, at)
		}
		for _, d := range send {
			assert.False(t, before.isOpen(before.sent[d.question]), "it is in two hands: %s", at)
			assert.True(t, before.isOpen(d.to), "it goes where nobody reads: %s", at)
			assert.False(t, before.declined[d.question], "it was put away: %s", at)
			assert.False(t, before.accepted[d.question], "its answer was taken: %s", at)
			assert.True(t, d.to != before.standing || before.knowsTask && len(before.requests) == 0, "the client knows no task: %s", at)
			assert.Contains(t, before.open, d.question, at)
		}
		for question := range after.sent {
			assert.Contains(t, before.open, question, "it is settled: %s", at)
		}
		again, more := after.plan()
		assert.Empty(t, append(again, make([]delivery, len(more))...), "it has no end: %s", at)
	}
}

// A question goes to the newest request that waits.
func TestDealPrefersTheNewestRequest(t *testing.T) {
	t.Parallel()
	s := deliveryState{open: []string{"a"}, requests: []streamNo{firstRequest, secondRequest}, standing: standing, knowsTask: true}
	send, _ := s.plan()
	assert.Equal(t, []delivery{{"a", secondRequest}}, send)
	assert.False(t, s.idle())
	s.declined = map[string]bool{"a": true}
	assert.True(t, s.idle())
}
