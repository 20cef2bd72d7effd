package evals

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"slices"

	"github.com/orch-dev/orch/fault"
)

// StepID is the id of the agent step of each run.
const StepID = "agent"

// The inputs of a run that contain what a record begins with. They are no templates.
const (
	inputPrompt       = "recorded_prompt"
	inputInstructions = "recorded_instructions"
)

// Run is a case with a variant.
type Run struct {
	Case    *Case
	Variant *Variant
	// Nr is the number of the run, from 1.
	Nr int
	// Plan is the source of its plan, Inputs are its inputs. They are nil for what is recorded.
	Plan, Inputs json.RawMessage
	// NotRun is why there is no run; "" if there is one.
	NotRun string
}

// Live reports whether the run is a task.
func (r Run) Live() bool { return !r.Variant.Recorded && r.NotRun == "" }

// WithoutCalls returns the source of the plan without the calls whose results are given.
func (r Run) WithoutCalls() (json.RawMessage, error) {
	var source struct {
		Orch    string          `json:"orch"`
		Name    string          `json:"name"`
		Limits  json.RawMessage `json:"limits"`
		Inputs  json.RawMessage `json:"inputs"`
		Steps   []planStep      `json:"steps"`
		Outputs json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(r.Plan, &source); err != nil {
		return nil, err
	}
	for _, s := range source.Steps {
		delete(s.Agent, "stubs")
	}
	return json.Marshal(source)
}

// planStep is a step of the plan of a run.
type planStep struct {
	ID    string                     `json:"id"`
	Agent map[string]json.RawMessage `json:"agent"`
}

// Digest identifies what a run does.
func (r Run) Digest() string {
	sum := sha256.New()
	for _, part := range []string{r.Case.Name, r.Variant.Name, shown(r.Nr), string(r.Plan), string(r.Inputs)} {
		sum.Write([]byte(shown(part)))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// DigestOf identifies what runs do together.
func DigestOf(runs []Run) string {
	sum := sha256.New()
	for _, r := range runs {
		sum.Write([]byte(r.Digest()))
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// Runs returns the runs of a set, case by case. load returns the keys of the agent in a file. records are the records of the cases
// with tasks, by task and step.
func (s *Set) Runs(load func(file string) (map[string]any, error), records map[string]*Record) ([]Run, error) {
	var all []Run
	for i := range s.Cases {
		c := &s.Cases[i]
		for j := range s.Variants {
			v := &s.Variants[j]
			if v.Recorded {
				all = append(all, Run{Case: c, Variant: v, Nr: 1})
				continue
			}
			run, err := s.run(c, v, load, records[c.RecordKey()])
			if err != nil {
				return nil, fault.From(err).WithField(c.Name + ", " + v.Name)
			}
			for nr := range s.Repeat {
				run.Nr = nr + 1
				all = append(all, run)
			}
		}
	}
	return all, nil
}

// RecordKey returns the key of the record of a case.
func (c *Case) RecordKey() string { return c.Task + "/" + c.Step }

// run returns the run of a case with a variant.
func (s *Set) run(c *Case, v *Variant, load func(string) (map[string]any, error), rec *Record) (Run, error) {
	keys, err := s.agentOf(c, v, load, rec)
	if err != nil {
		return Run{}, err
	}
	keys["stubs"] = stubsOf(c, slices.Concat(s.Tools, c.Tools), rec)
	outputs := map[string]any{"text": output("text")}
	if keys["result"] != nil {
		outputs["result"] = output("result")
	}
	source, err := json.Marshal(map[string]any{
		"orch": "v1", "name": "eval", "limits": map[string]any{"deadline": s.Timeout},
		"inputs": map[string]any{"type": "object", "additionalProperties": true},
		"steps":  []any{map[string]any{"id": StepID, "agent": keys}}, "outputs": outputs,
	})
	if err != nil {
		return Run{}, err
	}
	inputs, err := json.Marshal(inputsOf(c, rec))
	return Run{Case: c, Variant: v, Plan: source, Inputs: inputs}, err
}

func output(name string) string { return "${{ steps." + StepID + ".output." + name + " }}" }

// agentOf returns the keys of the agent of a case with a variant.
func (s *Set) agentOf(c *Case, v *Variant, load func(string) (map[string]any, error), rec *Record) (map[string]any, error) {
	keys := map[string]any{}
	source := s.Agent
	if !v.Agent.IsZero() {
		source = v.Agent
	}
	switch {
	case source.File != "":
		loaded, err := load(source.File)
		if err != nil {
			return nil, err
		}
		maps.Copy(keys, loaded)
	case source.Keys != nil:
		maps.Copy(keys, source.Keys)
	default:
		maps.Copy(keys, rec.Keys)
	}
	if rec != nil && c.Prompt == "" {
		keys["prompt"] = "${{ inputs." + inputPrompt + " }}"
	}
	delete(keys, "chat")        // nobody goes on with the conversation
	delete(keys, "description") // a key of agent files only
	if s.Budget != nil {
		keys["budget"] = s.Budget
	}
	if v.Keys["model"] != nil {
		delete(keys, "fallback") // its answers would be taken for those of the model
	}
	maps.Copy(keys, v.Keys)
	if keys["prompt"] == nil {
		keys["prompt"] = "${{ inputs.prompt }}"
	}
	if keys["model"] == nil {
		return nil, fault.New(fault.RequiredField, "the agent has no model, and the variant names none")
	}
	keys["budget"] = withoutAsking(keys["budget"])
	if keys["budget"] == nil {
		delete(keys, "budget")
	}
	return keys, nil
}

// withoutAsking returns a budget at whose limit nobody is asked: there is nobody to ask.
func withoutAsking(budget any) any {
	b, ok := budget.(map[string]any)
	if !ok || b["on_exceeded"] != "ask" {
		return budget
	}
	b = maps.Clone(b)
	delete(b, "on_exceeded")
	return b
}

// inputsOf returns the inputs of a case: those of its record, its own, and the prompt.
func inputsOf(c *Case, rec *Record) map[string]any {
	inputs := map[string]any{}
	if rec != nil {
		maps.Copy(inputs, rec.Inputs)
		inputs[inputPrompt], inputs[inputInstructions] = rec.Prompt, rec.Instructions
		if inputs["prompt"] == nil {
			inputs["prompt"] = rec.Prompt
		}
	}
	maps.Copy(inputs, c.Inputs)
	if c.Prompt != "" {
		inputs["prompt"] = c.Prompt
	}
	return inputs
}

// stubsOf returns what answers the calls of a case: its own calls, then the recorded ones; other calls of tools that only read are
// made, unless a mode says otherwise.
func stubsOf(c *Case, modes []Mode, rec *Record) map[string]any {
	calls := slices.Clone(c.Calls)
	stubs := map[string]any{}
	if rec != nil {
		for _, call := range rec.Calls {
			if mode := modeOf(modes, call.Tool); mode == modeAuto || mode == ModeRecorded {
				calls = append(calls, call)
			}
		}
		stubs["from"] = rec.Task
	}
	if len(calls) > 0 {
		stubs["calls"] = calls
	}
	reads, live := []string{"*"}, []string{}
	for _, m := range modes {
		reads = append(withoutPattern(reads, m.Pattern), "!"+m.Pattern)
		if m.Mode == ModeLive {
			live = append(withoutPattern(live, m.Pattern), m.Pattern)
		} else {
			live = append(withoutPattern(live, m.Pattern), "!"+m.Pattern)
		}
	}
	stubs["reads"], stubs["live"] = reads, live
	return stubs
}

// withoutPattern returns patterns without those that a later one of the same tools replaces.
func withoutPattern(patterns []string, pattern string) []string {
	return slices.DeleteFunc(patterns, func(p string) bool { return p == pattern || p == "!"+pattern })
}

// modeOf returns how the calls of a tool are answered.
func modeOf(modes []Mode, tool string) string {
	mode := modeAuto
	for _, m := range modes {
		if ok, err := path.Match(m.Pattern, tool); err == nil && ok {
			mode = m.Mode
		}
	}
	return mode
}
