package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
)

// An identity with many unread answers waits for memory, while others get their answers at once.
func TestUnreadAnswersTakeTheirPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newAnswerMemory()
		const size = MaxAnswersEach / answerCopies
		first, second, other := r.newReservation("a"), r.newReservation("a"), r.newReservation("b")
		require.NoError(t, first.reserve(t.Context(), size))
		assert.False(t, second.tryReserve(size))
		assert.True(t, second.tryReserve(largeAnswer-1), "small answers wait for nothing")
		require.NoError(t, other.reserve(t.Context(), 10*size), "no answer is too large for an empty node")
		err := second.reserve(t.Context(), size)
		assert.True(t, fault.Has(err, fault.RateLimited), "%v", err)
		got := make(chan error)
		go func() { got <- second.reserve(context.Background(), size) }()
		synctest.Wait()
		other.release()
		synctest.Wait()
		assert.False(t, second.isLarge(), "the memory of others is not for everybody")
		first.release()
		require.NoError(t, <-got)
		second.release()
		assert.Zero(t, r.held)
		assert.Empty(t, r.heldBy)
		assert.Empty(t, r.queue)
	})
}

// A large answer is sent after it was made, in order, and an answer made after the end of its request uses no memory.
func TestLargeAnswersAreLate(t *testing.T) {
	t.Parallel()
	r := newAnswerMemory()
	of, sent := r.newReservation("a"), httptest.NewRecorder()
	late := &deferredWriter{ResponseWriter: sent, reservation: of}
	_, _ = late.Write([]byte("small "))
	require.NoError(t, of.reserve(t.Context(), largeAnswer))
	require.NoError(t, of.startMaking(t.Context()))
	_, _ = late.Write(make([]byte, largeAnswer))
	late.Flush()
	_, _ = late.Write([]byte("end"))
	assert.Equal(t, "small ", sent.Body.String())
	of.doneMaking()
	late.send()
	assert.Equal(t, len("small ")+largeAnswer+len("end"), sent.Body.Len())
	of.release()
	require.NoError(t, of.reserve(t.Context(), largeAnswer))
	require.NoError(t, of.startMaking(t.Context()))
	assert.Zero(t, r.held)
	assert.Empty(t, r.making)
}

// unread is a client that reads nothing until it is released.
type unread struct {
	http.ResponseWriter

	opened chan struct{}
}

func (u unread) Write(data []byte) (int, error) {
	<-u.opened
	return len(data), nil
}

func (u unread) Flush() { <-u.opened }

func answerIn(of *reservation, answer func() (mcp.Result, error)) {
	if _, err := withinMemory(context.Background(), client{reservation: of}, answer); err != nil {
		panic(err)
	}
}

// No request that waits for its client holds the semaphore for large answers, however the answer is sent.
func TestAClientThatReadsNothingStopsNobody(t *testing.T) {
	t.Parallel()
	small := func() (mcp.Result, error) { return &mcp.ReadResourceResult{}, nil }
	list := func() (mcp.Result, error) { return &mcp.ListToolsResult{Tools: make([]*mcp.Tool, largeAnswer)}, nil }
	for name, answer := range map[string]func(of *reservation, w http.ResponseWriter){
		"a small answer": func(of *reservation, w http.ResponseWriter) {
			answerIn(of, small)
			_, _ = w.(*deferredWriter).ResponseWriter.Write(nil) // as by a layer that unwraps
		},
		"the beginning of a large one": func(of *reservation, w http.ResponseWriter) {
			answerIn(of, list)
			_, _ = w.Write([]byte("data: "))
		},
		"its header": func(of *reservation, w http.ResponseWriter) {
			answerIn(of, list)
			w.(http.Flusher).Flush()
		},
		"all of it": func(of *reservation, w http.ResponseWriter) {
			answerIn(of, list)
			_, _ = w.Write(make([]byte, largeAnswer))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, open := newAnswerMemory(), make(chan struct{})
				req := httptest.NewRequest(http.MethodPost, "/", nil)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					r.serve(unread{httptest.NewRecorder(), open}, req, true, func(w http.ResponseWriter) { answer(r.attached(req.Header.Get(noteReservation)), w) })
				}()
				synctest.Wait()
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
				defer stop()
				_, err := withinMemory(ctx, client{reservation: r.newReservation("other")}, list)
				require.NoError(t, err)
				close(open)
				<-ended
				assert.Empty(t, r.attachments)
			})
		})
	}
}

// If the clients of a share read nothing, few of its requests wait inside the SDK. The others wait before it, where they need less memory,
// and are admitted when one of those ends; a request that waits too long is refused. Other shares, and small answers, do not wait.
func TestManyUnreadAnswersWaitAtTheDoor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newAnswerMemory()
		holder := r.newReservation("")
		require.NoError(t, holder.reserve(t.Context(), MaxAnswersEach/answerCopies))
		entered, statuses := make(chan struct{}, 3*maxWaiting), make(chan int, 3*maxWaiting)
		ask := func(large bool, size int) {
			req := httptest.NewRequest(http.MethodPost, "/", nil)
			w := httptest.NewRecorder()
			r.serve(w, req, large, func(http.ResponseWriter) {
				entered <- struct{}{}
				_ = r.attached(req.Header.Get(noteReservation)).reserve(t.Context(), size)
			})
			statuses <- w.Code
		}
		for range 2 * maxWaiting {
			go ask(true, MaxAnswersEach/answerCopies)
			synctest.Wait()
		}
		assert.Len(t, entered, maxWaiting)
		assert.Len(t, r.queue, maxWaiting)
		assert.True(t, r.waitTurn(t.Context(), "other"))
		ask(false, 1)
		assert.Len(t, entered, maxWaiting+1, "a cancellation")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		assert.False(t, r.waitTurn(ctx, ""), "its client has gone")
		stop()

		holder.release() // one gets the memory and ends, then the next one, and for each a new one comes in
		synctest.Wait()
		assert.Len(t, entered, 2*maxWaiting+1)
		for range 2*maxWaiting + 1 {
			assert.Equal(t, http.StatusOK, <-statuses)
		}
		assert.Empty(t, r.requests)
		assert.Empty(t, r.queue)
		assert.Zero(t, r.held)
	})
}

// A request that waits too long before the SDK is refused.
func TestTheDoorStaysShut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newAnswerMemory()
		for range maxWaiting {
			r.queue = append(r.queue, &memoryWaiter{reservation: r.newReservation("")})
		}
		w := httptest.NewRecorder()
		r.serve(w, httptest.NewRequest(http.MethodPost, "/", nil), true, func(http.ResponseWriter) { assert.Fail(t, "it was let in") })
		assert.Equal(t, http.StatusTooManyRequests, w.Code)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
		assert.Empty(t, r.requests)
	})
}

// A request that ends in a panic leaves nothing behind.
func TestARequestThatPanicsLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newAnswerMemory()
	req := httptest.NewRequest(http.MethodPost, "/", nil)
	assert.Panics(t, func() {
		r.serve(httptest.NewRecorder(), req, true, func(http.ResponseWriter) {
			require.NoError(t, r.attached(req.Header.Get(noteReservation)).startMaking(t.Context()))
			panic("no")
		})
	})
	assert.Empty(t, r.attachments)
	assert.Empty(t, r.making)
}
