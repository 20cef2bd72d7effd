package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/policy"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
)

// withRules returns a policy with a file of one rule or several.
func withRules(t *testing.T, text string) *policy.Policy {
	t.Helper()
	rules, err := policy.ParseRules("p.yaml", []byte("version: 1\n"+text))
	require.NoError(t, err, text)
	return newPolicy(t, policy.Config{Rules: rules})
}

// one is a file with one rule of one criterion.
func one(action, criterion, pattern string) string {
	return fmt.Sprintf("default: %s\nrules: [{name: r, action: %s, %s: [%q]}]\n", map[bool]string{true: "deny", false: "allow"}[action == "allow"], action, criterion, pattern)
}

func hostCall(targets ...string) *policy.Call {
	c := policy.Call{Spec: &tools.Spec{Name: "HTTP_REQUEST", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.ByIntent, OpenWorld: true}, State: statemachine.InProgress}
	for _, name := range targets {
		kind := tools.Endpoint
		if strings.HasPrefix(name, "postgres") || strings.HasPrefix(name, "sqlite") {
			kind = tools.Connection
		}
		c.Intent.Targets = append(c.Intent.Targets, tools.Target{Kind: kind, Name: name})
	}
	return &c
}

func pathCall(access tools.Access, paths ...string) *policy.Call {
	c := policy.Call{
		Spec:  &tools.Spec{Name: "X", Effect: tools.Write, Gate: tools.InProgress, Approval: tools.NoApproval, Paths: []tools.Path{{Field: "path", Access: access}}},
		State: statemachine.InProgress, Workspace: workspace, Paths: map[string]string{},
	}
	for i, path := range paths {
		c.Paths[fmt.Sprintf("path[%d]", i)] = path
	}
	return &c
}

// commandCase is a command, a rule, and the expected action.
type commandCase struct {
	action, pattern, command string
	want                     policy.Action
}

func TestRulesOfCommands(t *testing.T) {
	t.Parallel()
	for _, tc := range append(refusingCases(), allowingCases()...) {
		got := withRules(t, one(tc.action, "commands", tc.pattern)).EvaluateRules(bashCall(tc.command))
		assert.Equal(t, tc.want, got.Action, "%s %s: %s", tc.action, tc.pattern, tc.command)
	}
}

// refusingCases returns rules that deny or ask.
func refusingCases() []commandCase {
	return append(plainCases(), wrappedCases()...)
}

// plainCases returns commands that match as written.
func plainCases() []commandCase {
	const push, curl, rm = "git push*", "curl *", "rm -rf*"
	return []commandCase{
		{"deny", push, "git push", "deny"},
		{"deny", push, "git push origin main", "deny"},
		{"deny", push, "git  push   origin", "deny"},
		{"deny", push, "git\tpush", "deny"},
		{"deny", push, "git \\\n push", "deny"},
		{"deny", push, "git pull", "allow"},
		{"deny", push, "echo git push", "allow"},
		{"deny", push, "git status && git push", "deny"},
		{"deny", push, "git status; git push", "deny"},
		{"deny", push, "false || git push", "deny"},
		{"deny", push, "true | git push", "deny"},
		{"deny", push, "git push &", "deny"},
		{"deny", push, "git status\ngit push", "deny"},
		{"deny", push, "! git push", "deny"},
		{"deny", push, "time git push", "deny"},
		{"deny", push, "(git push)", "deny"},
		{"deny", push, "{ git push; }", "deny"},
		{"deny", push, "echo $(git push)", "deny"},
		{"deny", push, "echo `git push`", "deny"},
		{"deny", push, `echo "$(git push)"`, "deny"},
		{"deny", push, "cat <(git push)", "deny"},
		{"deny", push, "if true; then git push; fi", "deny"},
		{"deny", push, "for i in 1; do git push; done", "deny"},
		{"deny", push, "case x in x) git push;; esac", "deny"},
		{"deny", push, "f() { git push; }; f", "deny"},
		{"deny", push, "cat <<E\n$(git push)\nE", "deny"},
		{"deny", push, `"git" push`, "deny"},
		{"deny", push, `g'i't pu"sh"`, "deny"},
		{"deny", push, `\git push`, "deny"},
		{"deny", push, "/usr/bin/git push", "deny"},
		{"deny", push, "../x/git push", "deny"},
		{"deny", push, "A=b git push", "deny"},
		{"deny", push, "git -C dir push", "deny"},
		{"deny", push, "git -c a=b push", "deny"},
		{"deny", push, "git --no-pager push", "deny"},
		{"deny", push, "git --no-pager -C dir -c a=b push", "deny"},
		{"deny", push, "env git push", "deny"},
		{"deny", push, "env A=b git push", "deny"},
		{"deny", push, "env -i A=b /usr/bin/git -C x push", "deny"},
		{"deny", push, "env -S 'git push'", "deny"},
		{"deny", push, "env -S'git push'", "deny"},
		{"deny", push, "env --split-string='git push'", "deny"},
		{"deny", push, "sudo -u bob git push", "deny"},
		{"deny", push, "timeout 5 git push", "deny"},
		{"deny", push, "nohup nice -n 5 git push", "deny"},
		{"deny", push, "command git push", "deny"},
	}
}

// wrappedCases returns commands inside wrappers.
func wrappedCases() []commandCase {
	const push, curl, rm = "git push*", "curl *", "rm -rf*"
	return []commandCase{
		{"deny", push, "exec git push", "deny"},
		{"deny", push, "sh -c 'git push'", "deny"},
		{"deny", push, "bash -ec 'cd x && git push'", "deny"},
		{"deny", push, `sh -c "sh -c 'git push'"`, "deny"},
		{"deny", push, "sudo sh -c 'git push'", "deny"},
		{"deny", push, "/bin/sh -c 'git push'", "deny"},
		{"deny", push, "eval git push", "deny"},
		{"deny", push, "eval 'git push'", "deny"},
		{"deny", push, "trap 'git push' EXIT", "deny"},
		{"deny", push, "su -c 'git push' bob", "deny"},
		{"deny", push, "echo x | xargs git push", "deny"},
		{"deny", push, "find . -exec git push ;", "deny"},
		{"deny", push, `find . -exec sh -c 'git push' \;`, "deny"},
		{"deny", push, "timeout 5 find . -name x", "allow"},
		{"deny", push, "timeout 5 grep $X file", "allow"},
		{"deny", push, "grep 'a (' file", "allow"},
		{"deny", push, "find . -name '*.go' | xargs grep foo", "allow"},
		// A word that is computed at run time may be the command.
		{"deny", push, "$X push", "ask"},
		{"deny", push, "git $X", "ask"},
		{"deny", push, "git pu$X", "ask"},
		{"deny", push, "git pu?h", "ask"},
		{"deny", push, "git {push,x}", "ask"},
		{"deny", push, "git status $X", "allow"},
		{"deny", push, "echo push | xargs git", "ask"},
		{"deny", push, "timeout 5 $X push", "ask"},
		{"deny", push, "sh script.sh", "ask"},
		{"deny", push, "echo git push | sh", "ask"},
		{"deny", push, "sh <<E\ngit push\nE", "ask"},
		{"deny", push, ". ./script.sh", "ask"},
		{"deny", push, "source script.sh", "ask"},
		{"deny", push, "sh -c \"$X\"", "ask"},
		{"deny", push, "eval $X", "ask"},
		{"deny", push, "git push (", "ask"},
		{"deny", push, "git push $X", "deny"},
		{"deny", "git push", "git push origin", "allow"},
		{"deny", "git push", "git push", "deny"},
		{"deny", curl, "curl https://example.com/a/b?c=d", "deny"},
		{"deny", curl, "curl", "deny"},
		{"deny", curl, "curly x", "allow"},
		{"deny", curl, "x=$(curl -s example.com) && echo $x", "deny"},
		{"deny", rm, "find . -exec rm -rf {} +", "deny"},
		{"deny", rm, "ls | xargs rm -rf", "deny"},
		{"deny", rm, "ls | xargs -I{} rm -rf {}", "deny"},
		{"ask", "make *", "cd x && make", "ask"},
		{"ask", "make *", "cmake x", "allow"},
	}
}

// allowingCases returns allow rules: they must match every command as written.
func allowingCases() []commandCase {
	return []commandCase{
		{"allow", "git status*", "git status", "allow"},
		{"allow", "git status*", "git status -s", "allow"},
		{"allow", "git status*", "/usr/bin/git status", "allow"},
		{"allow", "git status*", "./git status", "deny"},
		{"allow", "git status*", "git status && rm x", "deny"},
		{"allow", "git status*", "git status $(rm x)", "deny"},
		{"allow", "git status*", "git status; git status", "allow"},
		{"allow", "git status*", "git -C x status", "deny"},
		{"allow", "git status*", "sh -c 'git status'", "deny"},
		{"allow", "git status*", "env git status", "deny"},
		{"allow", "git status*", "$X", "deny"},
		{"allow", "git status*", "git status (", "deny"},
		{"allow", "git status*", "> file", "deny"},
		{"allow", "ls *", "ls *.go $X", "allow"},
	}
}

func TestRulesOfHosts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, target string
		want            bool
	}{
		{"example.com", "https://example.com:443", true},
		{"example.com", "https://EXAMPLE.com.:443", true},
		{"EXAMPLE.com.", "https://example.com:443", true},
		{"example.com", "https://evil-example.com:443", false},
		{"example.com", "https://example.com.evil.org:443", false},
		{"example.com", "https://api.example.com:443", false},
		{"example.com", "https://evil.org:443/example.com", false},
		{"example.com", "https://example.com@evil.org:443", false},
		{"*.example.com", "https://api.example.com:443", true},
		{"*.example.com", "https://a.b.example.com:443", true},
		{"*.example.com", "https://example.com:443", false},
		{"*.example.com", "https://evil-example.com:443", false},
		{"*.example.com", "https://api.evil-example.com:443", false},
		{"api-*.example.com", "https://api-1.example.com:443", true},
		{"api-*.example.com", "https://api-1.evil.example.com:443", false},
		{"api.*.com", "https://api.x.com:443", true},
		{"api.*.com", "https://api.x.y.com:443", false},
		{"example.com:8080", "https://example.com:8080", true},
		{"example.com:8080", "https://example.com:443", false},
		{"example.com:0443", "https://example.com:443", true},
		{"example.com:443", "https://example.com:0443", true},
		{"127.0.0.1", "http://127.0.0.1:80", true},
		{"[::1]", "http://[::1]:80", true},
		{"::1", "http://[0:0::1]:80", true},
		{"[::1]:81", "http://[::1]:80", false},
		{"*", "https://anything.org:443", true},
		{"db.example.com", "postgres://db.example.com:5432/x", true},
		{"*", "sqlite:/root/a.db", false},
	} {
		got := withRules(t, one("deny", "hosts", tc.pattern)).EvaluateRules(hostCall(tc.target))
		assert.Equal(t, tc.want, got.Action == policy.RuleDeny, "%s: %s", tc.pattern, tc.target)
	}
	p := withRules(t, one("allow", "hosts", "example.com"))
	assert.Equal(t, policy.RuleDeny, p.EvaluateRules(hostCall("https://example.com:443", "https://evil.org:443")).Action, "all have to fit")
	assert.Equal(t, policy.RuleDeny, p.EvaluateRules(hostCall("sqlite:/a")).Action)
	assert.Equal(t, policy.RuleDeny, p.EvaluateRules(hostCall()).Action)
}

func TestRulesOfPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		action, pattern, path string
		access                tools.Access
		want                  policy.Action
	}{
		{"deny", "secret/**", "/root/secret/a/b", tools.ReadPath, "deny"},
		{"deny", "secret/**", "/root/secret", tools.ReadPath, "deny"},
		{"deny", "secret/**", "/root/secrets/a", tools.ReadPath, "allow"},
		{"deny", "secret/**", "/root/x/secret/a", tools.ReadPath, "allow"},
		{"deny", "secret/**", "/root/x/../secret/a", tools.ReadPath, "deny"},
		{"deny", "secret/**", "/root/secret/../x", tools.ReadPath, "allow"},
		{"deny", "secret/**", "/root//secret//a", tools.ReadPath, "deny"},
		{"deny", "src/secret", "/root/src/secret/deep/a", tools.ReadPath, "deny"},
		{"deny", "/root/secret/**", "/root/secret/a", tools.ReadPath, "deny"},
		{"deny", "/secret/**", "/root/secret/a", tools.ReadPath, "allow"},
		{"deny", "**/secret/**", "/root/a/b/secret/c", tools.ReadPath, "deny"},
		{"deny", "*.pem", "/root/a/b/x.pem", tools.ReadPath, "deny"},
		{"deny", "*.pem", "/root/a/b/x.pem.txt", tools.ReadPath, "allow"},
		{"deny", "src/*.go", "/root/src/a.go", tools.WritePath, "deny"},
		{"deny", "src/*.go", "/root/src/sub/a.go", tools.WritePath, "allow"},
		{"deny", "src/secret/**", "/root/src", tools.DeletePath, "deny"},
		{"deny", "src/secret/**", "/root/src", tools.WritePath, "ask"},
		{"deny", "src/secret/**", "/root/src", tools.ReadPath, "allow"},
		{"deny", "src/secret/**", "/root/srcs", tools.DeletePath, "allow"},
		{"ask", "docs", "/root/docs/a", tools.WritePath, "ask"},
		{"allow", "docs/**", "/root/docs/a", tools.WritePath, "allow"},
		{"allow", "docs/*", "/root/docs/a/b", tools.WritePath, "deny"},
		{"allow", "*.md", "/root/x.md/evil", tools.WritePath, "deny"},
	} {
		got := withRules(t, one(tc.action, "paths", tc.pattern)).EvaluateRules(pathCall(tc.access, tc.path))
		assert.Equal(t, tc.want, got.Action, "%s %s: %s %s", tc.action, tc.pattern, tc.access, tc.path)
	}
	both := pathCall(tools.ReadPath, "/root/docs/a", "/root/x")
	assert.Equal(t, policy.RuleDeny, withRules(t, one("allow", "paths", "docs/**")).EvaluateRules(both).Action, "all have to fit")
	assert.Equal(t, policy.RuleDeny, withRules(t, one("deny", "paths", "docs/**")).EvaluateRules(both).Action, "one is enough")
}

func TestRulesOfToolsEffectsAgents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		criterion, pattern, agent string
		want                      policy.Action
	}{
		{"tools", "BASH_EXECUTE", "", "deny"},
		{"tools", "BASH_*", "", "deny"},
		{"tools", "BASH", "", "allow"},
		{"tools", "bash_execute", "", "allow"},
		{"tools", "*", "", "deny"},
		{"tools", "B?SH_EXECUTE", "", "deny"},
		{"effects", "write", "", "deny"},
		{"effects", "read", "", "allow"},
		{"agents", "agent:*", "agent:x", "deny"},
		{"agents", "agent:*", "user:agent:x", "allow"},
		{"agents", "user:ada", "user:ada", "deny"},
		{"agents", "user:ada", "user:adam", "allow"},
		{"agents", "user:ada", "", "ask"},
	} {
		c := bashCall("echo x")
		c.Agent = tc.agent
		got := withRules(t, one("deny", tc.criterion, tc.pattern)).EvaluateRules(c)
		assert.Equal(t, tc.want, got.Action, "%s %s %s", tc.criterion, tc.pattern, tc.agent)
	}
	p := withRules(t, "rules: [{name: d, action: deny, effects: [destructive]}]\n")
	assert.Equal(t, policy.RuleDeny, p.EvaluateRules(bashCall("rm -rf /x")).Action)
}

// deny overrides ask, and ask overrides allow, in any order; all criteria must match.
func TestRulesOrder(t *testing.T) {
	t.Parallel()
	p := withRules(t, `
default: ask
rules:
  - {name: reads, action: allow, effects: [write], tools: ["*"]}
  - {name: asks, action: ask, commands: ["make *"]}
  - {name: never, action: deny, commands: ["git push*"], agents: ["agent:*"], reason: people push}
`)
	judge := func(command, agent string) policy.Verdict {
		c := bashCall(command)
		c.Agent = agent
		return p.EvaluateRules(c)
	}
	assert.Equal(t, policy.Verdict{Action: "allow", Rule: "reads"}, judge("echo x", "agent:a"))
	assert.Equal(t, policy.Verdict{Action: "ask", Rule: "asks"}, judge("make x", "agent:a"))
	assert.Equal(t, policy.Verdict{Action: "deny", Rule: "never", Reason: "people push"}, judge("make && git push", "agent:a"))
	assert.Equal(t, policy.RuleAsk, judge("make && git push", "user:a").Action)
	assert.Equal(t, policy.Verdict{Action: "ask", Rule: "never", Reason: "it cannot be told whether the rule matches: people push"}, judge("git push", ""))
	assert.Equal(t, policy.Verdict{Action: "ask", Rule: "default", Reason: "no rule matches"}, judge("rm x", "user:a"))
	assert.Equal(t, policy.Verdict{Action: "allow"}, newPolicy(t, policy.Config{}).EvaluateRules(bashCall("rm x")))
}

func TestRulesDecide(t *testing.T) {
	t.Parallel()
	p := withRules(t, `
rules:
  - {name: no-push, action: deny, commands: ["git push*"], reason: releases are made by hand}
  - {name: builds, action: ask, commands: ["make *", "rm *"]}
  - {name: all, action: allow, tools: ["*"]}
`)
	_, err := p.Decide(bashCall("git push"))
	require.EqualError(t, err, "FORBIDDEN: the rule no-push of the policy file denies BASH_EXECUTE: releases are made by hand")
	assert.Equal(t, "POLICY_DENIED", fault.From(err).Reason)

	ask, err := p.Decide(bashCall("make x"))
	require.NoError(t, err)
	assert.Equal(t, "policy:builds", ask.Rule)
	assert.Equal(t, policy.PreExecution, ask.Type)

	// An allow rule does not override requests and refusals of the node.
	ask, err = p.Decide(bashCall("rm -rf /x"))
	require.NoError(t, err)
	assert.Equal(t, "policy:builds", ask.Rule)
	assert.Equal(t, policy.DestructiveOperation, ask.Type)
	assert.Equal(t, "high", ask.Risk)
	ask, err = p.Decide(bashCall("unknown-program"))
	require.NoError(t, err)
	assert.Equal(t, "destructive", ask.Rule)
	_, err = p.Decide(writeCall("/root/Makefile", ""))
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(err))
}

// A plan names databases, and cannot name changes of them: the reason must not send people there.
func TestReasonOfADatabaseChange(t *testing.T) {
	t.Parallel()
	const name = "sqlite:/root/shop.db"
	c := hostCall("https://example.com")
	c.Intent = tools.Intent{Effect: tools.Write, Targets: []tools.Target{{Kind: tools.Connection, Name: name}}}
	p := newPolicy(t, policy.Config{})
	ask, err := p.Decide(c)
	require.NoError(t, err)
	assert.Equal(t, "the plan of the task does not name connection "+name+", and the task changes "+name+" for the first time", ask.Reason)
	c.Allow.Connections = []string{name}
	ask, err = p.Decide(c)
	require.NoError(t, err)
	assert.Equal(t, "the task changes "+name+" for the first time", ask.Reason)
	assert.Empty(t, ask.Instead)
}

// A grant for the whole task must not replace the approvals that the file requires for each call.
func TestRulesAskDropsScopes(t *testing.T) {
	t.Parallel()
	p := withRules(t, one("ask", "hosts", "example.com"))
	c := hostCall("https://example.com:443")
	ask, err := p.Decide(c)
	require.NoError(t, err)
	assert.Empty(t, ask.Scopes)
	assert.Contains(t, ask.Reason, "does not name")
	assert.Contains(t, ask.Reason, "the rule r of the policy file asks for")
	c.Scopes = []string{"endpoint https://example.com:443"}
	ask, err = p.Decide(c)
	require.NoError(t, err)
	assert.Equal(t, "policy:r", ask.Rule)
	ask, err = p.Decide(hostCall("https://other.org:443"))
	require.NoError(t, err)
	assert.Equal(t, "new_target", ask.Rule)
}

// A redirect to a target that the file denies or asks about is not followed.
func TestRulesHoldForRedirects(t *testing.T) {
	t.Parallel()
	target := func(name string) tools.Target { return tools.Target{Kind: tools.Endpoint, Name: name, Known: true} }
	c := hostCall("https://example.com:443")
	for text, want := range map[string]bool{
		one("deny", "hosts", "evil.org"):                        false,
		one("ask", "hosts", "evil.org"):                         false,
		one("deny", "hosts", "other.org"):                       true,
		one("allow", "hosts", "example.com"):                    false,
		one("allow", "hosts", "*"):                              true,
		one("ask", "tools", "HTTP_REQUEST"):                     true,
		one("ask", "hosts", "*"):                                false,
		one("deny", "tools", "HTTP_REQUEST"):                    false,
		"rules: [{name: r, action: ask, tools: [FILE_READ]}]\n": true,
	} {
		assert.Equal(t, want, withRules(t, text).AllowsTarget(c, target("https://evil.org:443")), text)
	}
	assert.True(t, newPolicy(t, policy.Config{}).AllowsTarget(c, target("https://evil.org:443")))
}

func TestPolicyFileIsProtected(t *testing.T) {
	t.Parallel()
	rules, err := policy.ParseRules("/root/conf/policy.yaml", []byte("version: 1\n"))
	require.NoError(t, err)
	p := newPolicy(t, policy.Config{Rules: rules})
	c := writeCall("/root/conf/policy.yaml", "")
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(verdict(p, c)))
	assert.Equal(t, fault.ProtectedPath, fault.CodeOf(verdict(p, writeCall("/root/conf", ""))))
	assert.NotEqual(t, fault.ProtectedPath, fault.CodeOf(verdict(p, writeCall("/root/conf/other.yaml", ""))))
}

// A tool that starts a program without a shell is judged by its words.
func TestRulesOfArguments(t *testing.T) {
	t.Parallel()
	p := withRules(t, one("deny", "commands", "grep -r*"))
	for args, want := range map[string]policy.Action{
		`{"command":"grep","args":["-r","x"]}`: "deny",
		`{"command":"grep","args":["x"]}`:      "allow",
		`{"command":"cat"}`:                    "allow",
		`{}`:                                   "allow",
	} {
		c := policy.Call{Spec: &tools.Spec{Name: "shell_exec"}, Args: json.RawMessage(args)}
		assert.Equal(t, want, p.EvaluateRules(&c).Action, args)
	}
}

// The search for simple commands is bounded for every command.
func TestRulesOfHugeCommands(t *testing.T) {
	t.Parallel()
	p := withRules(t, one("deny", "commands", "git push*"))
	for _, command := range []string{
		strings.Repeat("sudo ", 5000) + "git push",
		strings.Repeat("env -S x sh -c 'a b' ", 2000),
		"echo " + strings.Repeat("x", 1<<20) + "; git pull",
		strings.Repeat("$(", 500) + strings.Repeat(")", 500),
		strings.Repeat("find -exec ", 5000) + "x",
	} {
		assert.NotEqual(t, policy.RuleAllow, p.EvaluateRules(bashCall(command)).Action, command[:20])
	}
}

// Examples are shown to whoever wrote them.
func TestExamplesStayReadable(t *testing.T) {
	t.Parallel()
	rules, err := policy.ParseRules("p.yaml", []byte(`version: 1
rules: [{name: r, action: deny, commands: ["x*"], examples: {match: [{tool: BASH_EXECUTE, args: {command: "a && b > c"}}]}}]`))
	require.NoError(t, err)
	assert.Contains(t, string(rules.List[0].Match[0].Args), "a && b > c")
}
