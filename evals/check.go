package evals

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Check is an assertion about the outcome of a run.
type Check struct {
	// Name is the assertion as people write it, such as contains "milk".
	Name string
	// test returns why an outcome does not pass; "" if it does.
	test func(o *Outcome) string
	// fails is the code with which the run has to fail; "" if it has to succeed.
	fails fault.Code
}

// checks reads a list of assertions, each of which has one or several keys.
func (r *reader) checks(f field) (all []Check) {
	r.list(f, MaxCases, func(f field) {
		add := func(name string, test func(o *Outcome) string) { all = append(all, Check{Name: name, test: test}) }
		fields := r.limits(add)
		fields["contains"] = func(f field) { r.contains(f, true, add) }
		fields["not_contains"] = func(f field) { r.contains(f, false, add) }
		fields["equals"] = func(f field) { r.equals(f, add) }
		fields["result"] = func(f field) { r.result(f, add) }
		fields["tools"] = func(f field) { r.used(f, true, add) }
		fields["not_tools"] = func(f field) { r.used(f, false, add) }
		fields["calls"] = func(f field) { r.list(f, MaxCases, func(f field) { r.call(f, add) }) }
		fields["fails"] = func(f field) {
			code := fault.Code(r.text(f))
			all = append(all, Check{Name: "fails " + string(code), fails: code})
		}
		r.object(f, fields)
	})
	return all
}

// limits returns the readers of assertions about what a run uses.
func (r *reader) limits(add func(string, func(*Outcome) string)) map[string]func(field) {
	over := func(name string, limit float64, got func(*Outcome) float64, show func(float64) string) {
		add(name+" "+show(limit), func(o *Outcome) string {
			if got(o) <= limit {
				return ""
			}
			return "it is " + show(got(o))
		})
	}
	plain := func(n float64) string { return strconv.FormatInt(int64(n), 10) }
	return map[string]func(field){
		"max_usd": func(f field) {
			over("max_usd", r.number(f, 1e6), func(o *Outcome) float64 { return o.USD }, func(n float64) string { return "$" + dollars(n) })
		},
		"max_tokens": func(f field) {
			over("max_tokens", float64(r.count(f, math.MaxInt32)), func(o *Outcome) float64 { return float64(o.Tokens) }, plain)
		},
		"max_turns": func(f field) {
			over("max_turns", float64(r.count(f, MaxRuns)), func(o *Outcome) float64 { return float64(o.Turns) }, plain)
		},
		"max_calls": func(f field) {
			over("max_calls", float64(r.count(f, MaxRuns)), func(o *Outcome) float64 { return float64(len(o.Calls)) }, plain)
		},
		"max_time": func(f field) {
			over("max_time", float64(r.duration(f)), func(o *Outcome) float64 { return float64(o.Took) }, func(n float64) string { return time.Duration(n).String() })
		},
	}
}

// dollars formats an amount with the digits that it has, at most 6.
func dollars(usd float64) string {
	text := strings.TrimRight(fmt.Sprintf("%.6f", usd), "0")
	if strings.HasSuffix(text, ".") {
		return text + "00"
	}
	return text
}

// matcher returns the test of a text, or of a regular expression between slashes.
func (r *reader) matcher(f field, text string) func(string) bool {
	inner, begins := strings.CutPrefix(text, "/")
	inner, ends := strings.CutSuffix(inner, "/")
	if !begins || !ends {
		return func(s string) bool { return strings.Contains(s, text) }
	}
	form, err := regexp.Compile(inner)
	if err != nil {
		r.fail(f, "%v", err)
		return func(string) bool { return false }
	}
	return form.MatchString
}

func (r *reader) contains(f field, wanted bool, add func(string, func(*Outcome) string)) {
	word := "contains"
	if !wanted {
		word = "not_contains"
	}
	for _, text := range r.texts(f) {
		matches := r.matcher(f, text)
		add(fmt.Sprintf("%s %q", word, text), func(o *Outcome) string {
			if matches(o.Text) == wanted {
				return ""
			}
			return fmt.Sprintf("the answer is %q", brief(o.Text))
		})
	}
}

func (r *reader) equals(f field, add func(string, func(*Outcome) string)) {
	text := r.text(f)
	add(fmt.Sprintf("equals %q", brief(text)), func(o *Outcome) string {
		if strings.TrimSpace(o.Text) == strings.TrimSpace(text) {
			return ""
		}
		return fmt.Sprintf("the answer is %q", brief(o.Text))
	})
}

// result reads an assertion about the result, or about a part of it.
func (r *reader) result(f field, add func(string, func(*Outcome) string)) {
	at, label := "", "result"
	var matches func(any) bool
	r.object(f, map[string]func(field){
		"path": func(f field) { at = r.text(f); label += " " + at },
		"equals": func(f field) {
			want := r.value(f)
			matches = func(v any) bool { return sameJSON(v, want) }
			label += " equals " + shown(want)
		},
		"contains": func(f field) {
			text := r.text(f)
			found := r.matcher(f, text)
			matches = func(v any) bool { return found(asText(v)) }
			label += fmt.Sprintf(" contains %q", text)
		},
	})
	if matches == nil {
		r.fail(f, "needs equals or contains")
		return
	}
	add(label, func(o *Outcome) string {
		v, ok := valueAt(o.Result, at)
		switch {
		case !ok:
			return "there is no such value"
		case matches(v):
			return ""
		default:
			return "it is " + brief(shown(v))
		}
	})
}

// used reads an assertion about the tools that the model calls, whether or not the calls are made.
func (r *reader) used(f field, wanted bool, add func(string, func(*Outcome) string)) {
	for _, text := range r.texts(f) {
		pattern := r.pattern(f, text)
		word := "tools "
		if !wanted {
			word = "not_tools "
		}
		add(word+pattern, func(o *Outcome) string {
			called := slices.ContainsFunc(o.Calls, func(c Call) bool { return matchesTool(pattern, c.Tool) })
			switch {
			case called == wanted:
				return ""
			case wanted:
				return "it called " + o.toolNames()
			default:
				return "it was called"
			}
		})
	}
}

func matchesTool(pattern, tool string) bool {
	ok, err := path.Match(pattern, tool)
	return err == nil && ok
}

// call reads an assertion about a call: its tool, and arguments of which the given ones count.
func (r *reader) call(f field, add func(string, func(*Outcome) string)) {
	pattern, args := "", map[string]any{}
	r.object(f, map[string]func(field){
		"tool": func(f field) { pattern = r.pattern(f, r.text(f)) },
		"args": func(f field) { args = r.keys(f) },
	})
	if pattern == "" {
		r.fail(f, "needs a tool")
	}
	add("calls "+pattern+" "+brief(shown(args)), func(o *Outcome) string {
		for _, c := range o.Calls {
			var given map[string]any
			if matchesTool(pattern, c.Tool) && json.Unmarshal([]byte(c.Args), &given) == nil && includes(given, args) {
				return ""
			}
		}
		return "it called " + o.toolNames()
	})
}

// includes reports whether all fields of part are in whole. A text between slashes is a regular expression.
func includes(whole, part map[string]any) bool {
	for key, want := range part {
		got, ok := whole[key]
		if !ok {
			return false
		}
		if text, isText := want.(string); isText && len(text) > 1 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
			if form, err := regexp.Compile(text[1 : len(text)-1]); err == nil && form.MatchString(asText(got)) {
				continue
			}
		}
		if !sameJSON(got, want) {
			return false
		}
	}
	return true
}

// sameJSON reports whether two values are the same in JSON.
func sameJSON(a, b any) bool { return reflect.DeepEqual(normal(a), normal(b)) }

// normal returns a value as JSON decodes it.
func normal(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// shown returns a value as JSON.
func shown(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

// asText returns a text as it is, and other values as JSON.
func asText(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	return shown(v)
}

// brief truncates a text for a message.
func brief(text string) string {
	const longest = 160
	if runes := []rune(text); len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return text
}
