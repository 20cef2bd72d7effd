package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/api"
)

// What commands leave besides acts of methods of the API, which are named like these.
const (
	reads = "reads"
	// works is for commands whose effect is a task or a message, which the log has with its sender.
	works = "works"
	// admin is for commands whose acts are recorded by the node beside its API: see TestAdministrativeActs of package node.
	admin = "admin"
	// files is for commands that work on files, and record that themselves (connector.onFiles).
	files = "local files"
	// here is for commands that run, or that write files of the project or of other programs.
	here = "here"
)

// commandEffects says what each command leaves in the audit stream.
func commandEffects() map[string]string {
	all := map[string]string{
		"answer": "answer", "approve": "decide", "archive": "archive", "hold": "place_hold", "hold release": "release_hold", "archive export": "export", "archive restore": "import", "cancel": "cancel", "export": "export", "fork": "fork", "import": "import",
		"pause": "pause", "redrive": "redrive", "reject": "decide", "resolve": "resolve", "resume": "resume", "retry": "retry", "revoke": "decide",
		"signal": "signal", "checkpoint create": "checkpoint", "agents say": "say", "schedule create": "put_schedule", "hook create": "put_hook", "destination create": "put_destination",
		"undo": admin, "backup": admin, "agents register": admin, "agents remove": admin, "token create": admin, "token revoke": admin, "token rotate-local": admin,
		"mcp enable": admin, "mcp disable": admin, "mcp reload": admin, "ui": admin,
		"doctor": files, "upgrade finalize": "finalize_store", "restore": files, "mcp accept": files, "mcp import": files, "mcp login": files, "mcp logout": files,
	}
	for effect, names := range map[string]string{
		"steer_destination": "destination delete,destination discard,destination pause,destination redeliver,destination resume,destination rotate,destination test",
		"steer_hook":        "hook delete,hook pause,hook resume,hook rotate",
		"steer_schedule":    "schedule backfill,schedule delete,schedule pause,schedule resume,schedule trigger",
		works:               "agents ask,agents chat,agents run,submit,tools call,plan run,message ack,message join,message leave,message send,eval,models test",
		here: "bench,completion bash,completion fish,completion powershell,completion zsh,demo,mcp install,mcp serve,mcp uninstall,plan new,serve,worker," +
			"plan test,mcp test,audit export,skill install",
		reads: "agents files,agents list,archive list,archive verify,hold list,destination deliveries,destination get,destination list,hook deliveries,hook get,hook list,hook test,agents card,agents show,approvals,audit list,audit verify,checkpoint list,checkpoint show,costs,diff,explain,files,get,grants,history,list,logs,mcp list," +
			"mcp validate,message groups,message inbox,message watch,models list,models prices,nodes,plan graph,plan schema,plan validate,policy explain,policy show," +
			"policy test,questions,queue,replay,result,retain,schedule get,schedule list,sessions,token list,tools list,tools show,trace export,tree,verify,upgrade,version,watch",
	} {
		for name := range strings.SplitSeq(names, ",") {
			all[name] = effect
		}
	}
	return all
}

// Each command says what it leaves in the audit stream, so that a new one cannot be forgotten.
func TestEveryCommandSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	effects, methods := commandEffects(), map[string]api.Effect{}
	for _, m := range api.Methods() {
		methods[m.Name] = m.Effect
	}
	used := map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "orch ")
		effect := effects[name]
		if !c.Runnable() || c.HasSubCommands() && effect == "" || c.Hidden {
			return
		}
		assert.NotEmpty(t, effect, "what does orch %s leave in the audit stream?", name)
		delete(effects, name)
		if m, ok := methods[effect]; ok {
			used[effect] = true
			assert.GreaterOrEqual(t, m, api.Steers, name)
		} else {
			assert.Contains(t, []string{reads, works, admin, files, here}, effect, name)
		}
	}
	visit(newRoot(newProbe(t).app))
	assert.Empty(t, effects, "there are no such commands")
	for _, m := range api.Methods() {
		assert.Equal(t, m.Effect >= api.Steers, used[m.Name], "a command makes the act %s", m.Name)
	}
}
