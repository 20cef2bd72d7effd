// Package retention decides how long archived tasks and their workspaces are retained.
//
// Rules are tried in order, and the first one that matches a task counts for it. A time that a rule does not give is that of the
// node. The package computes and reads no clock.
package retention

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Keep contains retention times; 0 is forever.
type Keep struct {
	// Done is for tasks in state DONE, Failed for tasks in any other state. They count from the end of a task.
	Done, Failed time.Duration
	// Workspaces is for the workspaces of tasks that are DONE, FailedWorkspaces for those of others. They count from the archiving.
	Workspaces, FailedWorkspaces time.Duration
}

// Rule says how long the tasks that it matches are retained. A nil time is that of the node.
type Rule struct {
	// Labels are labels that a task must have, all of them. Name is a pattern for its name, such as "nightly-*"; empty for every
	// name.
	Labels map[string]string
	Name   string

	Done, Failed, Workspaces, FailedWorkspaces *time.Duration
}

// Rules are the rules of a node, and the times for tasks that no rule matches.
type Rules struct {
	Rules   []Rule
	Default Keep
}

// MaxRules limits the rules of a node.
const MaxRules = 100

// Matches reports whether the rule is for a task.
func (r Rule) Matches(name string, labels map[string]string) bool {
	for key, value := range r.Labels {
		if labels[key] != value {
			return false
		}
	}
	if r.Name == "" {
		return true
	}
	ok, err := path.Match(r.Name, name)
	return err == nil && ok
}

// For returns the times for a task, and the number of the rule that gives them, from 1; 0 if no rule matches.
func (r Rules) For(name string, labels map[string]string) (Keep, int) {
	for i, rule := range r.Rules {
		if rule.Matches(name, labels) {
			return rule.Keep(r.Default), i + 1
		}
	}
	return r.Default, 0
}

// Keep returns the times of a rule, which are otherwise those of the node.
func (r Rule) Keep(otherwise Keep) Keep {
	set := func(field *time.Duration, given *time.Duration) {
		if given != nil {
			*field = *given
		}
	}
	set(&otherwise.Done, r.Done)
	set(&otherwise.Failed, r.Failed)
	set(&otherwise.Workspaces, r.Workspaces)
	set(&otherwise.FailedWorkspaces, r.FailedWorkspaces)
	return otherwise
}

// Shortest returns the shortest times of all rules; 0 if all are forever. Nothing younger is due, whatever rule it matches.
func (r Rules) Shortest() Keep {
	shortest := r.Default
	for _, rule := range r.Rules {
		k := rule.Keep(r.Default)
		shortest = Keep{
			Done: shorter(shortest.Done, k.Done), Failed: shorter(shortest.Failed, k.Failed),
			Workspaces: shorter(shortest.Workspaces, k.Workspaces), FailedWorkspaces: shorter(shortest.FailedWorkspaces, k.FailedWorkspaces),
		}
	}
	return shortest
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return a + b
	}
	return min(a, b)
}

// String describes the tasks that a rule matches.
func (r Rule) String() string {
	var parts []string
	if r.Name != "" {
		parts = append(parts, "name "+r.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		parts = append(parts, key+"="+r.Labels[key])
	}
	if len(parts) == 0 {
		return "every task"
	}
	return strings.Join(parts, ", ")
}

// maxTime bounds a retention time: 100 years.
const maxTime = 36_500 * 24 * time.Hour

var spanForm = regexp.MustCompile(`^(\d{1,5})d(.*)$`)

// ParseTime reads a retention time such as 30d, 12h or 1d12h; 0 is forever.
func ParseTime(text string) (time.Duration, error) {
	days, rest := 0, text
	if m := spanForm.FindStringSubmatch(text); m != nil {
		days, _ = strconv.Atoi(m[1]) // at most five digits
		rest = m[2]
	}
	var d time.Duration
	if rest != "" || text == "" {
		var err error
		if d, err = time.ParseDuration(rest); err != nil {
			return 0, fmt.Errorf("%q is not a time such as 30d or 12h", clip(text))
		}
	}
	if d < 0 || d > maxTime || time.Duration(days)*24*time.Hour > maxTime-d {
		return 0, errors.New("is not between 0 and 36500 days")
	}
	return d + time.Duration(days)*24*time.Hour, nil
}

// TimeText formats a retention time as ParseTime reads it; "forever" for 0.
func TimeText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "forever"
	case d%day == 0:
		return strconv.Itoa(int(d/day)) + "d"
	default:
		return d.String()
	}
}

// CheckName returns an error for an invalid pattern of names.
func CheckName(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return fmt.Errorf("%q is not a pattern such as nightly-*", clip(pattern))
	}
	return nil
}

func clip(text string) string { return fault.Clip(text, 60) }
