package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
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
	"github.com/orch-dev/orch/internal/wholefile"
)

// given notes which flags the user has set: only those are held against an agent that is registered.
func (o *registerOptions) given(set *pflag.FlagSet) {
	o.set = nil
	for _, name := range []string{"type", "version", "description", "capability", "max-tasks", "call-timeout", "retries"} {
		if set.Changed(name) {
			o.set = append(o.set, name)
		}
	}
}

// checkProgram returns why a program cannot be run, before anybody is registered for it.
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

// sameAgent holds what the user says of an agent against what is registered, and finds out where its node is by now. An agent that the node does not know any
// more is registered anew when there is enough said for that.
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
	err = during(ctx, s, func(s session) (err error) {
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
	if !loopback(cred.URL) {
		return cred, nil // it is an agent of a node elsewhere
	}
	return c.anew(ctx, o, file, cred)
}

// anew registers an agent again that was removed, and keeps its former credential: it may be that of another node.
func (c *agentCommands) anew(ctx context.Context, o agentRunOptions, file string, cred peer.Credential) (peer.Credential, error) {
	if len(o.capabilities) == 0 {
		return cred, fault.New(fault.NotFound, "the node does not know the agent %s (%s) of %s; it was removed", cred.Name, cred.Agent, file).
			WithHint("say what it can do, to register it anew: --capability NAME")
	}
	fresh, err := c.enrol(ctx, o, file+".new")
	if err != nil {
		return cred, err
	}
	kept, err := c.takeNew(file)
	if err != nil {
		return cred, err
	}
	c.note("the node did not know %s (%s) any more: it is registered anew; the former credential is in %s", cred.Name, cred.Agent, kept)
	return fresh, nil
}

// takeNew puts the credential of an agent that was registered anew in the place of the former one, and returns where that
// is kept now. It goes on where a process was killed: first there are both, then the new one takes the place.
func (c *agentCommands) takeNew(file string) (kept string, err error) {
	if _, err := readCredential(file+".new", c.now()); err != nil {
		return "", nil //nolint:nilerr // there is none, or it is good for nothing
	}
	if kept, err = c.putAside(file); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "the credential cannot be kept").WithField(file)
	}
	return kept, nil
}

// putAside copies a credential to a name that no other one which may still be good for something has.
func (c *agentCommands) putAside(file string) (string, error) {
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
		if _, err := readCredential(kept, c.now()); errors.Is(err, fs.ErrNotExist) { // also one that has expired
			return kept, wholefile.Replace(kept, content, 0o600)
		}
		kept = file + ".old." + strconv.Itoa(n)
	}
}

// loopback reports whether an address is one of this machine.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// differs returns CONFLICT when the flags that were set say something else than what is registered.
func (o *registerOptions) differs(v agents.View) error {
	able, err := o.able()
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

// flagsOf is what the flags of a registered agent would be.
func flagsOf(v agents.View) map[string]string {
	return map[string]string{
		"type": v.Type, "version": v.Version, "description": v.Description, "capability": capabilityText(v.Capabilities), "input-schema": schemaText(v.Capabilities),
		"max-tasks": strconv.Itoa(v.MaxTasks), "call-timeout": v.Timeout.String(), "retries": strconv.Itoa(v.MaxRetries),
	}
}

// noCategory is the category of a capability that the user gives none.
const noCategory = "general"

// asCapabilities reads capabilities that were written as name or name:category.
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

// capabilityText writes capabilities as one value of the flag, always in the same order.
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
