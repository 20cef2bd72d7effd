// Package replay is a provider that answers from the history of an agent step: the nth request of a conversation gets the recorded
// answer of the nth turn. Nobody is asked, and nothing is paid.
//
// A request may differ from the recorded one, because a prompt, the tools or the result of a call are others. It is answered all the
// same, and the answer says in what it differs; a strict provider refuses it. The texts that a turn adds are compared: those before
// were compared in their turns.
package replay

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/models"
)

// Turn is a recorded turn.
type Turn struct {
	// Asked is the request, of whose messages only the newest one is needed.
	Asked  models.Request
	Answer models.Answer
	// Refused is set instead if the request was too long for the model. It is then too long again.
	Refused bool
}

// Provider answers from a record.
type Provider struct {
	// Read returns a turn of the record, from 1. Its errors are those of the request.
	Read func(ctx context.Context, turn int) (Turn, error)
	// Strict refuses requests that differ from the recorded ones.
	Strict bool
}

var _ models.Provider = (*Provider)(nil)

// ReasonDiffers is the reason of the VALIDATION_ERROR of a strict provider for a request that differs from the recorded one.
const ReasonDiffers = "DIFFERS_FROM_RECORD"

// Stream implements models.Provider.
func (p *Provider) Stream(ctx context.Context, r models.Request, hear func(models.Delta)) (models.Answer, error) {
	turn, err := p.Read(ctx, r.Turn())
	if err != nil {
		return models.Answer{}, err
	}
	if turn.Refused {
		return models.Answer{}, &models.Error{Kind: models.TooLong, Message: "the request is as long as the recorded one, which was refused"}
	}
	differs := differences(turn.Asked, r)
	if p.Strict && len(differs) > 0 {
		return models.Answer{}, fault.New(fault.ValidationError, "the request of turn %d differs from the recorded one in %s", r.Turn(), strings.Join(differs, ", ")).
			WithField("agent.model").WithReason(ReasonDiffers).WithHint("without %s the recorded answer is given all the same", strictly)
	}
	answer := turn.Answer
	answer.Differs = differs
	if hear != nil {
		speak(answer.Message, hear)
	}
	return answer, nil
}

// speak calls hear with the texts and the calls of a message.
func speak(m models.Message, hear func(models.Delta)) {
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			hear(models.Delta{Call: p.Call.Name})
		case p.Text != "":
			hear(models.Delta{Text: p.Text})
		}
	}
}

// differences names what differs between a recorded request and a new one.
func differences(recorded, r models.Request) (all []string) {
	if recorded.System != r.System {
		all = append(all, "the instructions")
	}
	if !slices.EqualFunc(recorded.Tools, r.Tools, sameTool) {
		all = append(all, "the tools")
	}
	if recorded.NoCalls != r.NoCalls {
		all = append(all, "whether it may call tools")
	}
	if !bytes.Equal(recorded.Result, r.Result) {
		all = append(all, "the form of the result")
	}
	return append(all, inMessage(newest(recorded), newest(r), r.Turn() == 1)...)
}

func sameTool(a, b models.Tool) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Schema, b.Schema)
}

// newest returns the parts of the newest message of a request.
func newest(r models.Request) []models.Part {
	if len(r.Messages) == 0 {
		return nil
	}
	return r.Messages[len(r.Messages)-1].Parts
}

// inMessage names what differs between the parts of two messages of a user.
func inMessage(recorded, parts []models.Part, first bool) (all []string) {
	for i := range max(len(recorded), len(parts)) {
		a, b := partAt(recorded, i), partAt(parts, i)
		switch {
		case samePart(a, b):
		case b.Result != nil:
			all = append(all, "the result of "+b.Result.Name)
		case a.Result != nil:
			all = append(all, "the result of "+a.Result.Name)
		case first:
			all = append(all, "the prompt")
		default:
			all = append(all, "the text that is added")
		}
	}
	return all
}

func partAt(parts []models.Part, i int) models.Part {
	if i < len(parts) {
		return parts[i]
	}
	return models.Part{}
}

// samePart reports whether two parts say the same. The ids of calls do not count.
func samePart(a, b models.Part) bool {
	if a.Result == nil || b.Result == nil {
		return a.Result == nil && b.Result == nil && a.Text == b.Text
	}
	return a.Result.Name == b.Result.Name && a.Result.Content == b.Result.Content && a.Result.Failed == b.Result.Failed
}
