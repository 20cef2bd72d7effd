package bench

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/orch-dev/orch/fault"
)

// pageStreams are the open streams of pages.
type pageStreams struct {
	stop context.CancelFunc
	all  sync.WaitGroup
	// received counts bytes, broken the streams that the node has ended.
	received, broken atomic.Int64
}

// openPageStreams opens a stream for each page: pagesEach for each token.
func openPageStreams(ctx context.Context, url string, tokens []string) (*pageStreams, error) {
	p := &pageStreams{}
	ctx, p.stop = context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{}}
	for _, token := range tokens {
		for range pagesEach {
			if err := p.open(ctx, client, url, token); err != nil {
				p.stop()
				return nil, err
			}
		}
	}
	return p, nil
}

// open opens a stream, and reads it until ctx ends.
func (p *pageStreams) open(ctx context.Context, client *http.Client, url, token string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a stream of the benchmark cannot be opened")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(r)
	if err != nil {
		return fault.Wrap(fault.NetworkError, err, "a stream of the benchmark cannot be opened")
	}
	if answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close() // it is not read
		return fault.New(fault.NetworkError, "a stream of the benchmark was answered with %d", answer.StatusCode)
	}
	p.all.Go(func() {
		defer func() { _ = answer.Body.Close() }() // it was read
		_, _ = io.Copy(p, answer.Body)             // it ends with ctx
		if ctx.Err() == nil {
			p.broken.Add(1)
		}
	})
	return nil
}

// Write counts what the streams receive.
func (p *pageStreams) Write(data []byte) (int, error) {
	p.received.Add(int64(len(data)))
	return len(data), nil
}

// close closes the streams. It returns an error if the node has ended one before.
func (p *pageStreams) close() error {
	p.stop()
	p.all.Wait()
	if n := p.broken.Load(); n > 0 {
		return fault.New(fault.NetworkError, "the node has ended %d streams of the benchmark", n)
	}
	return nil
}
