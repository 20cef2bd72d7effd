package sim_test

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/orch-dev/orch/schedules"
)

// script is everything that a seed determines: the requests, the faults, and their times.
type script struct {
	// Seed determines what the script leaves open, such as the order of answers.
	Seed  uint64
	Plans []string
	// Patience is the probability, in eighths, that an answer of the log is late; Toil, in eighths, that a worker
	// proceeds. In sixteenths: Errors that a call fails, Asks that it needs an approval, Inquires that it asks a
	// question, Notes that it continues elsewhere.
	Patience, Toil, Errors, Asks, Inquires, Notes int
	Acts                                          []act
	// Schedules are definitions that acts may use; most scripts have none.
	Schedules []schedules.Definition
}

// act is one action; A and B select its target among the candidates at that time.
type act struct {
	Do   string
	A, B int
}

func (a act) String() string { return fmt.Sprint(a.Do, " ", a.A, " ", a.B) }

// daily returns the actions in every script, weighted by repetition.
func daily() []string {
	return strings.Fields("poll pass submit toil poll pass submit toil person signal poll pass again cancel pause resume retry checkpoint result beat decide")
}

// troubles returns the faults. A script uses a random subset of them, because scripts with few kinds of faults find
// more.
func troubles() []string {
	return strings.Fields("crash crash_written down refuse conflict lose late land full unread takeover retire lose_reply " +
		"say say die deaf duplicate give_up sides jump hold archive call leave batch linger later expire answer answer note note")
}

// scripts generates scripts.
func scripts() *rapid.Generator[script] {
	return rapid.Custom(func(t *rapid.T) script {
		s := script{
			Seed:     rapid.Uint64().Draw(t, "seed"),
			Patience: rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "patience"),
			Toil:     rapid.SampledFrom([]int{4, 8, 1}).Draw(t, "toil"),
			Errors:   rapid.SampledFrom([]int{2, 0, 8}).Draw(t, "errors"),
			Asks:     rapid.SampledFrom([]int{0, 0, 2, 8}).Draw(t, "asks"),
			Inquires: rapid.SampledFrom([]int{0, 0, 2, 6}).Draw(t, "inquires"),
			Notes:    rapid.SampledFrom([]int{0, 0, 2, 6}).Draw(t, "notes"),
			Plans:    rapid.SliceOfN(rapid.Custom(randomPlan), 1, 2).Draw(t, "plans"),
		}
		verbs := append(daily(), rapid.SliceOfN(rapid.SampledFrom(troubles()), 0, 8).Draw(t, "troubles")...)
		number := rapid.IntRange(0, 1<<12)
		s.Acts = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
			return act{rapid.SampledFrom(verbs).Draw(t, "do"), number.Draw(t, "a"), number.Draw(t, "b")}
		}), 16, 64).Draw(t, "acts")
		s.Acts = append([]act{{"submit", number.Draw(t, "a"), number.Draw(t, "b")}, {Do: "poll"}}, s.Acts...)
		scheduled(t, &s)
		return s
	})
}

// randomPlan draws the text of a plan.
func randomPlan(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("orch: v1\n")
	option(t, &b, "concurrency: {key: k}\n", "concurrency: {key: k, limit: 2}\n",
		"concurrency: {key: k, on_conflict: reject}\n", "concurrency: {key: k, on_conflict: cancel_running}\n")
	option(t, &b, "priority: high\n", "priority: low\n")
	option(t, &b, "limits: {deadline: 6s}\n", "limits: {max_steps: 3}\n", "limits: {deadline: 20s}\n")
	option(t, &b, "defaults: {retry: {max_attempts: 2, initial: 300ms}}\n", "defaults: {queue: other}\n")
	b.WriteString("steps:\n")
	ids := []string{}
	for i := range rapid.IntRange(1, 5).Draw(t, "steps") {
		id := fmt.Sprintf("s%d", i)
		b.WriteString("  - {id: " + id + needs(t, ids) + kind(t, ids) + "}\n")
		ids = append(ids, id)
	}
	option(t, &b, "verify: [{id: v, tool: READ}]\n")
	option(t, &b, "always: [{id: z, tool: ANY}]\n", "always: [{id: z, tool: ANY}, {id: y, needs: [z], wait: {for: 1s}}]\n")
	option(t, &b, "outputs: {n: \"${{ steps."+ids[len(ids)-1]+".state }}\"}\n")
	return b.String()
}

// option writes one of texts, or, more often, none.
func option(t *rapid.T, b *strings.Builder, texts ...string) {
	if rapid.IntRange(0, 3).Draw(t, "option") == 3 {
		b.WriteString(rapid.SampledFrom(texts).Draw(t, "text"))
	}
}

func needs(t *rapid.T, ids []string) string {
	if len(ids) == 0 {
		return ""
	}
	chosen := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 0, min(2, len(ids)), rapid.ID).Draw(t, "needs")
	slices.Sort(chosen)
	return ", needs: [" + strings.Join(chosen, ", ") + "]"
}

// kind draws the kind of a step.
func kind(t *rapid.T, ids []string) string {
	draw := func(texts ...string) string { return rapid.SampledFrom(texts).Draw(t, "part") }
	retry := draw("", ", retry: {max_attempts: 3}", ", retry: {max_attempts: 4, initial: 200ms, jitter: 0.5}")
	common := draw("", "", ", on_error: continue", ", on_error: skip_dependents")
	if len(ids) > 0 && rapid.IntRange(0, 5).Draw(t, "if") == 5 {
		common += ", if: steps." + ids[0] + ".state == 'succeeded'"
	}
	return draw(
		", tool: WRITE", ", tool: READ"+retry, ", tool: IDEM"+retry+draw("", ", heartbeat: 1s"), ", tool: WRITE"+retry,
		", tool: DESTROY", ", tool: READ, queue: other", ", tool: WRITE, effect: idempotent"+retry,
		", tool: WRITE, verify: {tool: PROBE, with: {text: probe}, expect: output.n >= 1}",
		", approve: {description: d, timeout: 20s"+draw("", ", on_reject: continue", ", on_expiry: escalate", ", on_expiry: approve", ", on_expiry: reject", ", quorum: 2")+"}",
		", tool: SPAWN"+retry, ", for_each: 1..2, do: [{id: c, tool: SPAWN}]",
		", set: {n: 1}", ", wait: {for: 2s}", ", wait: {signal: go}", ", wait: {signal: go, timeout: 3s, default: {n: 1}}",
		", wait: {signal: go, timeout: 2s}",
		", for_each: 1..3, max_parallel: 2, do: [{id: r, tool: READ"+retry+"}, {id: w, needs: [r], tool: WRITE}]",
		", for_each: 1..3, on_item_error: continue, do: [{id: w, tool: WRITE}, {id: x, needs: [w], wait: {for: 1s}}]",
		", for_each: 1..2, do: [{id: p, run: {orch: v1, steps: [{id: w, tool: WRITE}]}}]",
		", agent: {model: m/x, prompt: p"+draw(", tools: [READ, WRITE]", ", tools: [SPAWN, READ]")+draw("", ", max_turns: 2", ", budget: {calls: 3, on_exceeded: finish}", ", budget: {tokens: 7000}", ", budget: {calls: 1, on_exceeded: ask}",
			", context: {compact_at: 1000, keep: 1}", ", chat: true", ", chat: true, context: {compact_at: 1000}")+"}",
		", agent: {model: m/x, prompt: p, tools: [SPAWN], max_tokens: 2000, budget: {tokens: "+draw("5000", "8000")+"}}",
		", for_each: 1..2, do: [{id: a, agent: {model: m/x, prompt: '${{ item }}', tools: ['*'], budget: {usd: 0.02}}}]",
		", run: {orch: v1, steps: [{id: w, tool: WRITE}, {id: r, needs: [w], tool: READ}], always: [{id: z, tool: ANY}]}",
		", run: {orch: v1, steps: [{id: q, run: {orch: v1, steps: [{id: w, tool: IDEM"+retry+"}]}}, {id: x, wait: {for: 1s}}]}",
	) + common
}
