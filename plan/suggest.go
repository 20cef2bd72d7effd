package plan

import (
	"slices"
	"strings"
)

// maxSuggest bounds the length of the compared names.
const maxSuggest = 40

// suggest returns "did you mean x?" for the candidate nearest to a mistyped name, or "".
func suggest(name string, candidates []string) string {
	if len(name) > maxSuggest {
		return ""
	}
	best, distance := "", (len(name)+1)/3
	typed := strings.ToLower(name)
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		lower := strings.ToLower(c)
		if len(lower)-len(typed) > distance || len(typed)-len(lower) > distance || max(len(lower), len(typed)) > maxSuggest {
			continue
		}
		if d := editDistance(typed, lower); d <= distance && (best == "" || d < distance) {
			best, distance = c, d
		}
	}
	if best == "" || best == name {
		return ""
	}
	return "did you mean " + best + "?"
}

// suggestOr returns the suggestion, or fallback if there is no suggestion.
func suggestOr(name string, candidates []string, fallback string) string {
	if hint := suggest(name, candidates); hint != "" {
		return hint
	}
	return fallback
}

// editDistance counts the inserted, deleted, replaced and swapped bytes between a and b. Neither may be longer than
// maxSuggest.
func editDistance(a, b string) int {
	var before, last, row [maxSuggest + 1]int
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// suggestKey is suggest for the keys of a plan. It also knows the keys of other workflow formats.
func suggestKey(name string, candidates []string) string {
	typed := normalKey(name)
	others := otherFormatKeys()
	for _, key := range candidates {
		if slices.Contains(others[key], typed) {
			return "did you mean " + key + "?"
		}
	}
	if hint := keyAdvice(name); hint != "" {
		return hint
	}
	return suggest(name, candidates)
}

// otherFormatKeys maps keys of a plan to their names in other formats, in lower case and without dashes.
func otherFormatKeys() map[string][]string {
	return map[string][]string{
		"needs":        {"after", "dependson", "depends", "dependencies", "requires", "upstream", "waitfor"},
		"with":         {"args", "arguments", "params", "parameters", "input"},
		"inputs":       {"input", "params", "parameters", "arguments", "vars", "variables"},
		"if":           {"when", "condition", "only", "preconditions", "precondition"},
		"tool":         {"uses", "call", "action"},
		"id":           {"name", "key"},
		"for_each":     {"foreach", "loop", "map", "items", "withitems"},
		"switch":       {"case", "choose", "choice", "router"},
		"matrix":       {"strategy", "parallel"},
		"retry":        {"retries", "retrypolicy", "maxattempts"},
		"on_error":     {"onfailure", "continueonerror", "ignoreerrors", "continueon"},
		"outputs":      {"output", "results"},
		"always":       {"finally", "onexit", "cleanup"},
		"approve":      {"approval", "manual"},
		"delay":        {"interval", "intervalsec", "pollinterval"},
		"max_rounds":   {"limit", "maxiterations"},
		"until":        {"repeatuntil", "waituntil", "poll"},
		"max_parallel": {"parallelism", "maxconcurrency", "maxactiveruns"},
		"summary":      {"description"},
		"steps":        {"tasks", "jobs", "nodes"},
		"concurrency":  {"mutex", "semaphore", "singleton"},
	}
}
