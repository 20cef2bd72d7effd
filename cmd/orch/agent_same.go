package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/internal/wholefile"
)

// recordSet records the flags that the user has set. Only these flags are compared with a registered agent.
func (o *registerOptions) recordSet(set *pflag.FlagSet) {
	o.set = nil
	for _, name := range []string{"type", "version", "description", "capability", "max-tasks", "call-timeout", "retries"} {
		if set.Changed(name) {
			o.set = append(o.set, name)
		}
	}
}

// checkProgram returns an error if a program cannot be run. It is called before an agent is registered.
func checkProgram(program string) error {
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrDot):
		return fault.New(fault.NotFound, "%s is in this directory alone", program).WithField("--exec").WithHint("name it as ./%s", program)
	case errors.Is(err, os.ErrPermission):
		return fault.New(fault.Forbidden, "%s may not be executed", program).WithField("--exec").WithHint("chmod +x %s", program)
	default:
		return fault.New(fault.NotFound, "there is no program %s", program).WithField("--exec").WithHint("orch agent run --name builder --exec -- ./build.sh")
	}
}

// sameAgent checks that the flags match the registered agent, and updates the URL of the node in the credential. If the agent was
// removed from the node, it registers the agent again, provided that the flags describe it completely.
func (c *agentCommands) sameAgent(ctx context.Context, o agentRunOptions, file string, cred peer.Credential) (peer.Credential, error) {
	switch {
	case o.name != "" && o.name != cred.Name:
		return cred, fault.New(fault.Conflict, "this is the credential of %s", cred.Name).WithField("--name").WithHint("leave --name out, or name another file")
	case o.credential != "" && len(o.set) > 0:
		return cred, fault.New(fault.InvalidParams, "the agent of a credential is registered already").WithField("--"+o.set[0]).
			WithHint("leave that out; orch agents shows what %s can do", cred.Name)
	case o.credential != "" || o.url != "":
		return cred, nil
	}
	s, err := c.nodes.Dial(ctx, c.cfg)
	if err != nil {
		return cred, nil //nolint:nilerr // the agent waits for its node
	}
	var all []agents.View
	err = useSession(ctx, s, func(s session) (err error) {
		all, err = s.Agents(ctx)
		return err
	})
	if err != nil {
		c.note("the node does not say which agents it has (%v): %s goes on with its credential", err, cred.Name)
		return cred, nil
	}
	if i := slices.IndexFunc(all, func(v agents.View) bool { return v.ID == cred.Agent }); i >= 0 {
		cred.URL = cmp.Or(all[i].URL, cred.URL)
		return cred, o.differs(all[i])
	}
	if cred.URL != "" && !loopback(cred.URL) {
		return cred, nil // the agent belongs to another node
	}
	return c.registerAgain(ctx, o, file, cred)
}

// registerAgain registers a removed agent again. It keeps a copy of the former credential, which may belong to another node.
func (c *agentCommands) registerAgain(ctx context.Context, o agentRunOptions, file string, cred peer.Credential) (peer.Credential, error) {
	if len(o.capabilities) == 0 {
		return cred, fault.New(fault.NotFound, "the node does not know the agent %s (%s) of %s; it was removed", cred.Name, cred.Agent, file).
			WithHint("say what it can do, to register it again: --capability NAME")
	}
	fresh, err := c.enrol(ctx, o, file+".new")
	if err != nil {
		return cred, err
	}
	kept, err := c.replaceCredential(file)
	if err != nil {
		return cred, err
	}
	c.note("the node did not know %s (%s) any more: it is registered again; the former credential is in %s", cred.Name, cred.Agent, kept)
	return fresh, nil
}

// replaceCredential replaces the former credential by that of the newly registered agent, and returns the path of the copy of
// the former one. It can be repeated after a crash: it writes the copy before it replaces the file.
func (c *agentCommands) replaceCredential(file string) (kept string, err error) {
	if _, err := readCredential(file+".new", c.now()); err != nil {
		return "", nil //nolint:nilerr // a missing or unusable credential needs no copy
	}
	if kept, err = c.backUpCredential(file); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "the credential cannot be kept").WithField(file)
	}
	return kept, nil
}

// backUpCredential copies a credential to a new file, or over an expired credential, and returns the name of the copy.
func (c *agentCommands) backUpCredential(file string) (string, error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	kept := file + ".old"
	for n := 2; ; n++ {
		known, err := os.ReadFile(kept)
		if err == nil && bytes.Equal(known, content) {
			return kept, nil
		}
		if _, err := readCredential(kept, c.now()); errors.Is(err, fs.ErrNotExist) { // or the credential there has expired
			return kept, wholefile.Replace(kept, content, 0o600)
		}
		kept = file + ".old." + strconv.Itoa(n)
	}
}

// loopback reports whether the host of a URL is this machine.
func loopback(address string) bool {
	u, err := url.Parse(address)
	return err == nil && netguard.IsLoopback(u.Hostname())
}

// differs returns CONFLICT if the flags that were set differ from the registered agent.
func (o *registerOptions) differs(v agents.View) error {
	able, err := o.parseCapabilities()
	if err != nil {
		return err
	}
	has, wants := flagsOf(v), map[string]string{
		"type": o.kind, "version": o.version, "description": o.description, "capability": capabilityText(able), "input-schema": schemaText(able),
		"max-tasks": strconv.Itoa(o.maxTasks), "call-timeout": o.timeout.String(), "retries": strconv.Itoa(o.retries),
	}
	var is, not []string
	for _, name := range o.set {
		if has[name] != wants[name] {
			is, not = append(is, "--"+name+" "+strconv.Quote(has[name])), append(not, "--"+name+" "+strconv.Quote(wants[name]))
		}
	}
	if is == nil {
		return nil
	}
	return fault.New(fault.Conflict, "%s is registered with %s, not with %s", v.Name, strings.Join(is, " "), strings.Join(not, " ")).
		WithHint("run orch agents remove %s and then this again, or choose another --name", v.Name)
}

// flagsOf returns the flag values that describe a registered agent.
func flagsOf(v agents.View) map[string]string {
	return map[string]string{
		"type": v.Type, "version": v.Version, "description": v.Description, "capability": capabilityText(v.Capabilities), "input-schema": schemaText(v.Capabilities),
		"max-tasks": strconv.Itoa(v.MaxTasks), "call-timeout": v.Timeout.String(), "retries": strconv.Itoa(v.MaxRetries),
	}
}

// noCategory is the default category of a capability.
const noCategory = "general"

// asCapabilities parses capabilities of the form name or name:category.
func asCapabilities(texts []string) []agents.Capability {
	list := make([]agents.Capability, len(texts))
	for i, text := range texts {
		name, category, ok := strings.Cut(text, ":")
		if !ok {
			category = noCategory
		}
		list[i] = agents.Capability{Name: name, Category: category}
	}
	return list
}

// capabilityText formats capabilities as one value of the flag, in a fixed order.
func capabilityText(list []agents.Capability) string {
	texts := make([]string, len(list))
	for i, c := range list {
		texts[i] = c.Name
		if c.Category != noCategory {
			texts[i] += ":" + c.Category
		}
	}
	slices.Sort(texts)
	return strings.Join(slices.Compact(texts), ",")
}
