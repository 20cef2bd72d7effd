package server

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The streams of the situations below: one that stands, two of requests, and one that has ended.
const (
	standing streamNo = iota + 1
	firstRequest
	secondRequest
	ended
)

// situations are all that there are of two questions.
func situations() (all []situation) {
	states := 2 * 5 * 2 * 2 // open or not, handed to none or one of four streams, put away or not, its answer taken or not
	for _, requests := range [][]streamNo{nil, {firstRequest}, {firstRequest, secondRequest}} {
		for n := range 4 * states * states {
			s := situation{told: n%2 == 1, requests: requests, handed: map[string]streamNo{}, away: map[string]bool{}, taken: map[string]bool{}}
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

func (s *situation) with(question string, state int) {
	if state%2 == 1 {
		s.open = append(s.open, question)
	}
	if to := streamNo(state / 2 % 5); to != 0 {
		s.handed[question] = to
	}
	s.away[question], s.taken[question] = state/10%2 == 1, state/20 == 1
}

// after is the situation when all that was dealt was sent.
func (s situation) after() situation {
	send, withdraw := s.deal()
	handed := map[string]streamNo{}
	maps.Copy(handed, s.handed)
	for _, d := range send {
		handed[d.question] = d.to
	}
	for _, question := range withdraw {
		delete(handed, question)
	}
	s.handed = handed
	return s
}

// A question that is open is in the hands of the client whenever the client reads anything on which it may be put.
func TestDealLosesNoQuestion(t *testing.T) {
	t.Parallel()
	all := situations()
	require.Len(t, all, 19200)
	for _, before := range all {
		send, withdraw := before.deal()
		after := before.after()
		at := fmt.Sprintf("%+v", before)
		for _, question := range before.open {
			reached := before.reads(before.handed[question])
			may := len(before.requests) > 0 || before.told && before.standing != 0
			assert.Equal(t, reached || may && !before.away[question] && !before.taken[question], after.reads(after.handed[question]), "%s of %s", question, at)
			assert.NotContains(t, withdraw, question, at)
		}
		for _, d := range send {
			assert.False(t, before.reads(before.handed[d.question]), "it is in two hands: %s", at)
			assert.True(t, before.reads(d.to), "it goes where nobody reads: %s", at)
			assert.False(t, before.away[d.question], "it was put away: %s", at)
			assert.False(t, before.taken[d.question], "its answer was taken: %s", at)
			assert.True(t, d.to != before.standing || before.told && len(before.requests) == 0, "the client knows no task: %s", at)
			assert.Contains(t, before.open, d.question, at)
		}
		for question := range after.handed {
			assert.Contains(t, before.open, question, "it is settled: %s", at)
		}
		again, more := after.deal()
		assert.Empty(t, append(again, make([]delivery, len(more))...), "it has no end: %s", at)
	}
}

// A question goes to the newest request that waits.
func TestDealPrefersTheNewestRequest(t *testing.T) {
	t.Parallel()
	s := situation{open: []string{"a"}, requests: []streamNo{firstRequest, secondRequest}, standing: standing, told: true}
	send, _ := s.deal()
	assert.Equal(t, []delivery{{"a", secondRequest}}, send)
	assert.False(t, s.idle())
	s.away = map[string]bool{"a": true}
	assert.True(t, s.idle())
}
