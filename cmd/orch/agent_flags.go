package main

import (
	"cmp"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// check validates the flags for registering an agent. It returns INVALID_FORMAT, REQUIRED_FIELD or VALIDATION_ERROR with the
// flag as the field. nameField is the flag or argument that contains the name of the agent.
func (o *registerOptions) check(name, nameField string) error {
	if len(o.capabilities) == 0 {
		return fault.New(fault.RequiredField, "an agent has at least one").WithField("--capability").
			WithHint("name what it can do with the words that plans use in requires, such as --capability build")
	}
	p := agents.Profile{
		Type: o.kind, Version: o.version, Description: o.description, Capabilities: asCapabilities(o.capabilities),
		MaxTasks: o.maxTasks, Timeout: o.timeout, MaxRetries: o.retries,
	}
	err := p.Check(name)
	if err == nil {
		return nil
	}
	e := *fault.From(err)
	switch e.Field {
	case "configuration.maxConcurrentTasks":
		return fault.New(e.Code, "%d is not a valid number of concurrent calls", o.maxTasks).WithField("--max-tasks").WithHint("use 1 to %d", agents.MaxTasks)
	case "configuration.timeout":
		return fault.New(e.Code, "%s is not a valid time limit of a call", o.timeout).WithField("--call-timeout").
			WithHint("use 1s to 24h")
	case "configuration.retryPolicy.maxRetries":
		return fault.New(e.Code, "%d is not a valid number of retries: it %s", o.retries, e.Message).WithField("--retries")
	}
	flags := map[string]string{
		"agentInfo.name": nameField, "agentInfo.type": "--type", "agentInfo.version": "--version",
		"agentInfo.description": "--description", "capabilities": "--capability",
	}
	e.Field = cmp.Or(flags[e.Field], e.Field)
	return &e
}

// checkRun validates the flags of `orch agent run` that were set. It returns INVALID_FORMAT or VALIDATION_ERROR with the flag as
// the field.
func (o *agentRunOptions) checkRun(flags *pflag.FlagSet) error {
	if flags.Changed("url") {
		if err := checkNodeURL(o.url); err != nil {
			return err
		}
	}
	if flags.Changed("concurrency") && (o.concurrency < 1 || o.concurrency > agents.MaxTasks) {
		return fault.New(fault.ValidationError, "%d is not a valid number of programs", o.concurrency).WithField("--concurrency").
			WithHint("use 1 to %d; values above --max-tasks have no effect", agents.MaxTasks)
	}
	if o.drain <= 0 {
		return fault.New(fault.ValidationError, "must be positive, not %s", o.drain).WithField("--drain").
			WithHint("use a time such as 10s; a second Ctrl-C ends the programs at once")
	}
	return nil
}

// checkNodeURL returns INVALID_FORMAT if text is not the URL of a node.
func checkNodeURL(text string) error {
	u, err := url.Parse(text)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return fault.New(fault.InvalidFormat, "%q is not the address of a node", text).WithField("--url").
		WithHint("write it as http://HOST:PORT or https://HOST, such as http://127.0.0.1:7424")
}

// agentRunOptions are the flags of `orch agent run`.
type agentRunOptions struct {
	registerOptions

	name, credential, url string
	concurrency           int
	drain                 time.Duration
}

// registerOptions are the flags that describe an agent.
type registerOptions struct {
	kind, version, description string
	capabilities, schemas      []string
	maxTasks, retries          int
	timeout                    time.Duration
	// set are the flags that the user has set.
	set []string
}

func (o *registerOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.kind, "type", "specialist", "its role"+choices(agents.Types()))
	f.StringVar(&o.version, "version", "1.0.0", "its version")
	f.StringVar(&o.description, "description", "", "what it is, for people")
	f.StringSliceVar(&o.capabilities, "capability", nil, "what it can do, as name or name:category (repeatable)")
	f.StringArrayVar(&o.schemas, "input-schema", nil, "JSON Schema of the data that a capability takes, as name=FILE (repeatable)")
	f.IntVar(&o.maxTasks, "max-tasks", 1, "how many calls it takes at the same time, 1 to 1000")
	f.DurationVar(&o.timeout, "call-timeout", time.Hour, "time limit of a call, unless its step sets one, 1s to 24h")
	f.IntVar(&o.retries, "retries", 0, "how often a failed call that may be repeated is retried, unless its step sets that, 0 to 100")
	completeFlag(cmd, "type", completeWords(agents.Types()))
}
