// Package script is a provider for tests and demonstrations: it answers from a script. An answer depends only on the
// script and the request, so that a conversation goes on in the same way after a restart.
//
// A script is YAML or JSON. It lists the turns of the model: the nth turn answers the requests whose conversation has n-1
// messages of the model.
//
//	turns:
//	  - expect: review          # text in the last message, or a regular expression: /^Review (this|that)/
//	    text: I will read the file.
//	    calls:
//	      - tool: FILE_READ
//	        args: {file_path: /w/shop.go}
//	    usage: {input: 1200, cache_read: 900, cache_write: 100, output: 40}
//	  - expect: package shop
//	    text: The file adds the prices.
//	    delay: 200ms
//	  - error: {kind: rate_limited, after: 2s, message: slow down}
//
// Each turn has some of these fields, each at most once:
//
//   - expect is what the texts and results in the last message must contain. Otherwise the request fails, which shows
//     that the conversation has left the script.
//   - text is the text of the answer, calls are its calls. The args of a call are an object, or a string that stands for
//     the arguments as a model wrote them, such as malformed ones. id is the id of a call; by default it comes from its
//     position.
//   - usage counts tokens. By default a token is four bytes of the request or of the answer.
//   - stop is end, calls, length, refused or other. The default is calls if there are calls, and otherwise end.
//   - error fails each request for the turn, with a kind of models.Kind. It excludes the fields of an answer.
//   - delay is how long the answer takes, at most an hour.
//
// A script has at most 1 MiB, 1,000 turns and 128 calls in a turn.
package script

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/orch-dev/orch/models"
)

// Provider answers from a script.
type Provider struct{ turns []turn }

var _ models.Provider = (*Provider)(nil)

// turn is an answer, or an error.
type turn struct {
	line   int
	expect string
	match  *regexp.Regexp // nil if expect is a text
	text   string
	calls  []models.Call // the ids may be ""
	usage  *models.Usage
	stop   models.Stop
	err    *models.Error
	delay  time.Duration
}

// Stream implements models.Provider.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	n := r.Turn()
	if n > len(p.turns) {
		return models.Answer{}, invalid("the script has %d turns, and turn %d is asked for", len(p.turns), n)
	}
	t := p.turns[n-1]
	if heard := last(r); !t.expects(heard) {
		return models.Answer{}, invalid("turn %d of the script (line %d) expects %q, but the last message is %q", n, t.line, t.expect, beginning(heard))
	}
	if err := wait(ctx, t.delay); err != nil {
		return models.Answer{}, &models.Error{Kind: models.Transport, Message: err.Error()}
	}
	if t.err != nil {
		e := *t.err
		return models.Answer{}, &e
	}
	answer := t.answer(r)
	if hear != nil {
		speak(answer.Message, hear)
	}
	return answer, nil
}

// expects reports whether the turn is the answer to a text.
func (t turn) expects(text string) bool {
	if t.match != nil {
		return t.match.MatchString(text)
	}
	return strings.Contains(text, t.expect)
}

// answer returns the answer to r.
func (t turn) answer(r models.Request) models.Answer {
	message := models.Message{Role: models.Model}
	if t.text != "" {
		message.Parts = append(message.Parts, models.Part{Text: t.text})
	}
	for i, call := range t.calls {
		if call.ID == "" {
			call.ID = models.CallID(r, i+1)
		}
		message.Parts = append(message.Parts, models.Part{Call: &call})
	}
	usage := models.Usage{Input: tokens(r), Output: tokens(message)}
	if t.usage != nil {
		usage = *t.usage
	}
	return models.Answer{Message: message, Stop: t.stop, Usage: usage, Model: r.Model}
}

// last returns the texts and results of the last message, in lines.
func last(r models.Request) string {
	if len(r.Messages) == 0 {
		return ""
	}
	var texts []string
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		switch {
		case p.Result != nil:
			texts = append(texts, p.Result.Content)
		case p.Text != "":
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// tokens estimates the tokens of a request or a message.
func tokens(v any) int64 {
	text, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return int64(len(text)+3) / 4
}

// wait waits unless d is 0.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// speak calls hear with the words of a message, and with its calls.
func speak(m models.Message, hear func(models.Delta)) {
	for _, p := range m.Parts {
		if p.Call != nil {
			hear(models.Delta{Call: p.Call.Name})
			continue
		}
		for rest := p.Text; rest != ""; {
			end := wordEnd(rest)
			hear(models.Delta{Text: rest[:end]})
			rest = rest[end:]
		}
	}
}

// wordEnd returns the length of the first word of a text, with the space in front of it.
func wordEnd(text string) int {
	start := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
	if start < 0 {
		return len(text)
	}
	length := strings.IndexFunc(text[start:], unicode.IsSpace)
	if length < 0 {
		return len(text)
	}
	return start + length
}

// beginning returns the beginning of a text, for an error.
func beginning(text string) string {
	const limit = 200
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

func invalid(format string, args ...any) *models.Error {
	return &models.Error{Kind: models.Invalid, Message: fmt.Sprintf(format, args...)}
}
