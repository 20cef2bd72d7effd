package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	restateserver "github.com/restatedev/sdk-go/server"
)

const (
	restateService = "Bench"
	restateHandler = "Run"
	// restateIdle is the delay of jobs that nobody shall run.
	restateIdle = 24 * time.Hour
)

// restateAddresses are the addresses of the server and of the worker, which the server calls.
type restateAddresses struct{ ingress, admin, node, worker string }

func newRestateAddresses() string {
	return strings.Join([]string{freeAddress(), freeAddress(), freeAddress(), freeAddress()}, ",")
}

func (o options) restateAddresses() restateAddresses {
	list := append(strings.Split(o.restate, ","), "", "", "")
	return restateAddresses{list[0], list[1], list[2], list[3]}
}

// restateServer returns a Restate server of one node with its defaults, which sync each write.
func restateServer(o options) *server {
	a := o.restateAddresses()
	return &server{
		dir: filepath.Join(o.dir, "restate"), address: a.ingress,
		create: func(_ context.Context, dir string) error { return os.Mkdir(dir, 0o700) },
		command: func(dir string) *exec.Cmd {
			cmd := exec.Command(o.restateServer, "--no-logo", "--listen-mode", "tcp", "--node-name", "bench", "--base-dir", dir,
				"--bind-address", a.node, "--advertised-address", "http://"+a.node)
			cmd.Env = append(os.Environ(), "RESTATE_INGRESS__BIND_ADDRESS="+a.ingress, "RESTATE_ADMIN__BIND_ADDRESS="+a.admin,
				"RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn")
			return cmd
		},
		check: func(ctx context.Context) error {
			if err := restateRequest(ctx, http.MethodGet, "http://"+a.ingress+"/restate/health", ""); err != nil {
				return err
			}
			return restateRequest(ctx, http.MethodGet, "http://"+a.admin+"/health", "")
		},
	}
}

func restateRequest(ctx context.Context, method, url, body string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		var text bytes.Buffer
		_, _ = text.ReadFrom(answer.Body) // the status is reported anyway
		return fmt.Errorf("%s %s: %s: %s", method, url, answer.Status, text.String())
	}
	return nil
}

type restateClient struct {
	requester ingress.SendRequester[job]
	transport *http.Transport
}

func (c restateClient) submit(ctx context.Context, j job, delay time.Duration) error {
	if j.ID == idleID {
		delay = restateIdle
	}
	var err error
	if delay > 0 {
		_, err = c.requester.Send(ctx, j, restate.WithDelay(delay))
	} else {
		_, err = c.requester.Send(ctx, j)
	}
	return err
}

func (c restateClient) submitMany(context.Context, []job) error { return errNoBatch }

func (c restateClient) close() { c.transport.CloseIdleConnections() }

// restatePeer returns the peer Restate. A job is an invocation of a handler, whose steps do nothing. It counts as finished
// when its last step is durable; its result is recorded after that.
func restatePeer(o options, name string) peer {
	s := restateServer(o)
	return peer{
		name: name, server: s, prepare: s.reset,
		dial: func(context.Context) (client, error) { return restateDial(o), nil },
		work: func(ctx context.Context, ready func(), done func(int64)) error {
			return restateWork(ctx, o, ready, done)
		},
	}
}

func restateDial(o options) client {
	const connections = 64 // the server's queue of new connections holds 128
	t := &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}
	c := ingress.NewClient("http://"+o.restateAddresses().ingress, ingress.WithHttpClient(&http.Client{Transport: t}))
	return restateClient{ingress.ServiceSend[job](c, restateService, restateHandler), t}
}

// restateWork serves the handler and registers it.
func restateWork(ctx context.Context, o options, ready func(), done func(int64)) error {
	a := o.restateAddresses()
	run := func(ctx restate.Context, j job) (int, error) { return restateRun(ctx, j, done) }
	service := restate.NewService(restateService).Handler(restateHandler, restate.NewServiceHandler(run))
	failed := make(chan error, 1)
	go func() {
		failed <- restateserver.NewRestate().WithLogger(quiet().Handler(), true).Bind(service).Start(ctx, a.worker)
	}()
	if err := (&server{address: a.worker}).until(ctx); err != nil {
		return err
	}
	// The server must know the worker before it takes its jobs.
	if err := restateRequest(ctx, http.MethodPost, "http://"+a.admin+"/deployments", `{"uri": "http://`+a.worker+`", "force": true}`); err != nil {
		return err
	}
	ready()
	return <-failed
}

func restateRun(ctx restate.Context, j job, done func(int64)) (int, error) {
	for range j.Steps + 1 {
		if _, err := restate.Run(ctx, func(restate.RunContext) (int, error) { return 0, nil }); err != nil {
			return 0, err
		}
	}
	done(j.ID)
	return 0, nil
}
