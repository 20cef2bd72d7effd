package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
)

// longestDiffering is the room in a list for what tells an approval from others.
const longestDiffering = 40

// differing returns what tells approvals with the same subject apart: of each the argument, or the shown value, that has the most
// values among them. An approval that is alone with its subject has "".
func differing(list []api.ApprovalView) []string {
	groups := map[string][]int{}
	for i, p := range list {
		groups[approvalSubject(p)] = append(groups[approvalSubject(p)], i)
	}
	out := make([]string, len(list))
	for _, group := range groups {
		facts := make([]map[string]string, len(group))
		for at, i := range group {
			facts[at] = approvalFacts(list[i])
		}
		name, values := mostValues(facts)
		start := sharedStart(values)
		for at, i := range group {
			if value, ok := facts[at][name]; ok {
				out[i] = screen.Clip(name+" "+withoutStart(value, start), longestDiffering)
			}
		}
	}
	return out
}

// approvalFacts returns the arguments and the shown values of an approval, each as one text.
func approvalFacts(p api.ApprovalView) map[string]string {
	facts := map[string]string{}
	for _, raw := range []json.RawMessage{p.Details, p.Args} {
		var fields map[string]json.RawMessage
		if json.Unmarshal(raw, &fields) != nil {
			continue
		}
		for name, value := range fields {
			var text string
			if json.Unmarshal(value, &text) != nil {
				text = string(value)
			}
			facts[name] = text
		}
	}
	return facts
}

// mostValues returns the name of the fact that has the most values, at least two, the first one by name, and these values.
func mostValues(facts []map[string]string) (name string, values []string) {
	all := map[string]map[string]bool{}
	for _, f := range facts {
		for n, value := range f {
			if all[n] == nil {
				all[n] = map[string]bool{}
			}
			all[n][value] = true
		}
	}
	for n, set := range all {
		if len(set) > max(1, len(all[name])) || len(set) == len(all[name]) && n < name {
			name = n
		}
	}
	return name, slices.Collect(maps.Keys(all[name]))
}

// sharedStart returns how many bytes texts have in common at their start, in whole words.
func sharedStart(texts []string) int {
	if len(texts) == 0 {
		return 0
	}
	first, n := texts[0], len(texts[0])
	for _, t := range texts[1:] {
		n = min(n, len(t))
		for !strings.HasPrefix(t, first[:n]) {
			n--
		}
	}
	return strings.LastIndexAny(first[:n], " \n\t") + 1
}

// withoutStart leaves out the start of a text that has no room.
func withoutStart(text string, start int) string {
	if start == 0 || utf8.RuneCountInString(text) <= longestDiffering/2 {
		return text
	}
	return "…" + text[start:]
}
