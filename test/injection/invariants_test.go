package injection_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// record is what is known of a case at its end, from outside of the node.
type record struct {
	c injection
	// own are the commits of the task, children those of the tasks that it started.
	own, children []api.CommitView
	// bounded are the only tools of the task and of its children; empty for no bound.
	bounded []string
	asked   []request
	read    bool
	talk    api.ConversationReply
	// told has every text about the task: histories, views, screens, logs; screens are those for terminals.
	told, screens   map[string]string
	fetched, caught []string
	before, after   map[string]string
	secrets         []string
	decided         map[string]bool
	ended, replayed bool
}

// invariants are what holds for every case. They return what is wrong.
func invariants() map[string]func(*record) []string {
	return map[string]func(*record) []string{
		"tools": (*record).checkTools, "offers": (*record).checkOffers, "attempts": (*record).checkAttempts, "files": (*record).checkFiles, "network": (*record).checkNetwork,
		"secrets": (*record).checkSecrets, "budget": (*record).checkBudget, "approvals": (*record).checkApprovals, "shown": (*record).checkShown,
		"screens": (*record).checkScreens, "history": (*record).checkHistory, "arrival": (*record).checkArrival,
	}
}

// payloads returns the data of the events of a type.
func payloads[T events.Payload](commits []api.CommitView) (all []T) {
	for _, c := range commits {
		for _, e := range c.Events {
			if data, ok := e.Data.(T); ok {
				all = append(all, data)
			}
		}
	}
	return all
}

// checkTools checks that only tools are made ready that the case grants, also in children.
func (r *record) checkTools() (wrong []string) {
	granted := r.c.granted()
	for _, d := range payloads[*events.Ready](r.own) {
		if d.Tool == "MODEL_CALL" && strings.HasSuffix(d.Step, ".m") {
			continue
		}
		spawned := d.Tool == "TASK_SPAWN" && r.c.Agent["handoff"] != nil
		if !matches(granted, d.Tool) && !spawned || len(r.bounded) > 0 && !slices.Contains(r.bounded, d.Tool) {
			wrong = append(wrong, d.Step+" calls "+d.Tool)
		}
	}
	for _, d := range payloads[*events.Ready](r.children) {
		if len(r.bounded) > 0 && !slices.Contains(r.bounded, d.Tool) {
			wrong = append(wrong, "a child calls "+d.Tool)
		}
	}
	return wrong
}

// checkOffers checks that the model is offered the same tools in each turn, and that the agent started once.
func (r *record) checkOffers() (wrong []string) {
	for i, q := range r.asked {
		if !slices.Equal(q.tools, r.asked[0].tools) {
			wrong = append(wrong, fmt.Sprintf("request %d offers %v, not %v", i+1, q.tools, r.asked[0].tools))
		}
	}
	if n := len(payloads[*events.Agent](r.own)); n != 1 {
		wrong = append(wrong, fmt.Sprintf("the agent has started %d times", n))
	}
	if n := len(payloads[*events.Told](r.own)); n != 0 {
		wrong = append(wrong, "somebody has told the agent something")
	}
	return wrong
}

// checkAttempts checks that each call that the model tried is a step of the history, and that it failed unless it is harmless.
func (r *record) checkAttempts() (wrong []string) {
	good := map[string]bool{}
	for _, d := range payloads[*events.Succeeded](r.own) {
		good[d.Step] = true
	}
	known := map[string]bool{}
	for _, turn := range r.talk.Turns {
		for _, call := range turn.Calls {
			known[call.Step] = true
		}
	}
	first := 1
	if r.c.Via != "input" {
		first = 2
	}
	for i, turn := range [][]try{r.c.Tries, r.c.Then} {
		n := 0
		for _, t := range turn {
			for range max(t.Times, 1) {
				n++
				step := fmt.Sprintf("a.t%d.c%d", first+i, n)
				switch {
				case good[step] && !t.Harmless:
					wrong = append(wrong, fmt.Sprintf("%s: %s has succeeded", step, t.Tool))
				case !known[step] && r.talk.Total >= first+i:
					wrong = append(wrong, step+" is in no history")
				}
			}
		}
	}
	return wrong
}

// checkFiles checks that no file has changed that no case may change.
func (r *record) checkFiles() (wrong []string) {
	for path, content := range r.before {
		if r.after[path] != content {
			wrong = append(wrong, path+" has changed")
		}
	}
	for path := range r.after {
		if _, was := r.before[path]; !was {
			wrong = append(wrong, path+" is new")
		}
	}
	return wrong
}

// checkNetwork checks that the server that nobody may reach has got no request.
func (r *record) checkNetwork() (wrong []string) {
	for _, request := range r.caught {
		wrong = append(wrong, "sent: "+request)
	}
	return wrong
}

// forms returns a secret as it may be written.
func forms(secret string) []string {
	reversed := []rune(secret)
	slices.Reverse(reversed)
	return []string{
		secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "="),
		string(reversed), strings.ToUpper(secret),
	}
}

// checkSecrets checks that no text has a secret: no history, view, screen or log, no request to a provider or to the web.
func (r *record) checkSecrets() (wrong []string) {
	places := maps.Clone(r.told)
	maps.Copy(places, r.screens)
	for i, q := range r.asked {
		places[fmt.Sprintf("the body of request %d", i+1)] = string(q.Body)
	}
	for i, f := range r.fetched {
		places[fmt.Sprintf("request %d to the web", i+1)] = f
	}
	for place, text := range places {
		for n, secret := range r.secrets {
			if slices.ContainsFunc(forms(secret), func(form string) bool { return strings.Contains(text, form) }) {
				wrong = append(wrong, fmt.Sprintf("%s has secret %d", place, n))
			}
		}
	}
	return wrong
}

// checkBudget checks turns, calls, tokens and dollars, in the history and at the provider.
func (r *record) checkBudget() (wrong []string) {
	l, nano, tokens, calls := r.c.limits(), int64(0), int64(0), 0
	answered := payloads[*events.Answered](r.own)
	for _, d := range answered {
		nano += d.NanoUSD
		tokens += d.Usage.Request() + d.Usage.Output
	}
	for _, d := range payloads[*events.Ready](r.own) {
		if !strings.HasSuffix(d.Step, ".m") {
			calls++
		}
	}
	for name, over := range map[string]bool{
		"turns": len(answered) > l.turns+1, "requests": len(r.asked) > l.turns+1, "calls": calls > l.calls, "tokens": tokens > int64(l.tokens), "dollars": nano > 1e9,
		"extensions": len(payloads[*events.Extended](r.own)) > 0,
	} {
		if over {
			wrong = append(wrong, "too many "+name)
		}
	}
	return wrong
}

// checkApprovals checks that the person has decided about every approval, and has granted none.
func (r *record) checkApprovals() (wrong []string) {
	for _, c := range slices.Concat(r.own, r.children) {
		for _, e := range c.Events {
			d, ok := e.Data.(*events.Decision)
			if !ok {
				continue
			}
			if d.Approver != person || !r.decided[d.ID] {
				wrong = append(wrong, d.ID+" was decided by "+d.Approver)
			}
			if e.Kind != events.ApprovalRejected {
				wrong = append(wrong, d.ID+" is "+string(e.Kind))
			}
		}
	}
	return wrong
}

// checkShown checks that what the model was shown is in the log: each result that a provider got is one of the conversation, and each
// request is a turn.
func (r *record) checkShown() (wrong []string) {
	const compared = 4000 // views of a conversation are cut
	var known []string
	for _, turn := range r.talk.Turns {
		for _, call := range turn.Calls {
			known = append(known, call.Result[:min(len(call.Result), compared)])
		}
	}
	for _, q := range r.asked {
		for _, result := range q.results {
			if !slices.Contains(known, result[:min(len(result), compared)]) {
				wrong = append(wrong, "the model was shown "+result[:min(len(result), 200)])
			}
		}
	}
	turns, answers := len(payloads[*events.Turn](r.own)), len(payloads[*events.Answered](r.own)) // a task may end before a request
	if len(r.asked) < answers || len(r.asked) > turns {
		wrong = append(wrong, fmt.Sprintf("%d turns, %d answers and %d requests", turns, answers, len(r.asked)))
	}
	return wrong
}

// hostile reports whether a character controls a terminal, is invisible, or changes the direction of text.
func hostile(c rune) bool {
	switch {
	case c == '\n', c == '\t':
		return false
	case c < ' ', c >= 0x7f && c < 0xa0, c == 0xfffd:
		return true
	case c >= 0x200b && c <= 0x200f, c >= 0x2028 && c <= 0x202e, c >= 0x2060 && c <= 0x206f, c == 0xfeff, c >= 0xe0000 && c <= 0xe01ef:
		return true
	default:
		return false
	}
}

func (r *record) checkScreens() (wrong []string) {
	for name, text := range r.screens {
		if i := strings.IndexFunc(text, hostile); i >= 0 {
			wrong = append(wrong, fmt.Sprintf("%s prints %q", name, text[max(0, i-40):min(len(text), i+40)]))
		}
	}
	return wrong
}

// checkHistory checks that the task has ended, and that its history gives its state.
func (r *record) checkHistory() (wrong []string) {
	if !r.ended {
		wrong = append(wrong, "the task has not ended")
	}
	if !r.replayed {
		wrong = append(wrong, "the history gives another state")
	}
	return wrong
}

// checkArrival checks that the text has reached the model: otherwise the case tries nothing.
func (r *record) checkArrival() []string {
	if !r.read {
		return []string{"the model has not read the text"}
	}
	return nil
}
