package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/orch-dev/orch/fault"
)

// play plays a dialogue: requests, named WHO VERB PATH, and the answers to them, named by their status.
func play(ctx context.Context, url string, tokens map[string]string, text []byte) error {
	d := dialogue{url: strings.TrimRight(url, "/"), tokens: tokens, values: values{"instance": rand.Text()}}
	files := txtar.Parse(text).Files
	for i := 0; i+1 < len(files); i += 2 {
		if err := d.step(ctx, files[i], files[i+1]); err != nil {
			return fault.New(fault.ToolFailed, "request %d (%s): %v", i/2+1, files[i].Name, err)
		}
	}
	return nil
}

// dialogue is the state of a dialogue.
type dialogue struct {
	url    string
	tokens map[string]string
	values values
}

// step sends a request and compares the answer.
func (d *dialogue) step(ctx context.Context, request, answer txtar.File) error {
	line := strings.Fields(d.values.expand(request.Name))
	if len(line) != 3 {
		return fault.New(fault.InvalidFormat, "a request is named WHO VERB PATH")
	}
	body := strings.TrimSpace(d.values.expand(string(request.Data)))
	r, err := http.NewRequestWithContext(ctx, line[1], d.url+line[2], strings.NewReader(body))
	if err != nil {
		return err
	}
	if secret := d.tokens[line[0]]; secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = got.Body.Close() }() // it was read
	content, err := io.ReadAll(got.Body)
	if err != nil {
		return err
	}
	if strconv.Itoa(got.StatusCode) != answer.Name {
		return fault.New(fault.ToolFailed, "status %d instead of %s: %s", got.StatusCode, answer.Name, bytes.TrimSpace(content))
	}
	var want, have any
	if err := json.Unmarshal(answer.Data, &want); err != nil {
		return err
	}
	if err := json.Unmarshal(content, &have); err != nil {
		return fault.New(fault.ToolFailed, "the answer is not JSON: %s", content)
	}
	if problem := d.values.match(want, have, ""); problem != "" {
		return fault.New(fault.ToolFailed, "%s: %s", problem, bytes.TrimSpace(content))
	}
	return nil
}
