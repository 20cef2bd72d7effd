package main

import "github.com/spf13/cobra"

// family is a group of related commands.
type family interface {
	commands() []*cobra.Command
}

// addFamilies adds every family of commands to the root.
func (a *app) addFamilies(root *cobra.Command) {
	plans := &planLoader{env: a.env, tools: a.tools}
	wait := &waiter{a.connector}
	submits := &submitCommands{connector: a.connector, tools: a.tools, plans: plans, wait: wait}
	grouped(root, groupTasks,
		submits,
		&steerCommands{connector: a.connector, tools: a.tools},
		&approvalCommands{connector: a.connector, wait: wait},
		&messageCommands{connector: a.connector, tools: a.tools, wait: wait},
		&scheduleCommands{connector: a.connector, plans: plans},
		&hookCommands{connector: a.connector, plans: plans},
		&destinationCommands{a.connector})
	grouped(root, groupReads, &readCommands{connector: a.connector, wait: wait})
	grouped(root, groupPlans,
		&planCommands{env: a.env, tools: a.tools, plans: plans, submits: submits},
		&evalCommands{connector: a.connector, plans: plans},
		&toolCommands{connector: a.connector, tools: a.tools, plans: plans, wait: wait},
		&policyCommands{connector: a.connector, tools: a.tools, plans: plans},
		&skillCommands{a.env})
	grouped(root, groupNode,
		&nodeCommands{connector: a.connector},
		&mcpCommands{
			clients: &mcpClientCommands{a.connector},
			servers: &mcpServerCommands{connector: a.connector, tools: a.tools, defined: a.tools.defined},
		},
		&agentCommands{connector: a.connector, wait: wait, submits: submits},
		&modelCommands{a.connector},
		&tokenCommands{connector: a.connector},
		&dataCommands{connector: a.connector},
		&auditCommands{connector: a.connector},
		&doctorCommands{connector: a.connector, defined: a.tools.defined})
}

// grouped adds families of commands to a group of the help.
func grouped(root *cobra.Command, group string, families ...family) {
	for _, f := range families {
		for _, cmd := range f.commands() {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
}

// commands implements family.
func (c *agentCommands) commands() []*cobra.Command {
	return []*cobra.Command{newAgents(c)}
}

// commands implements family.
func (c *approvalCommands) commands() []*cobra.Command {
	return []*cobra.Command{newApprovals(c), newApprove(c), newReject(c), newGrants(c), newRevoke(c), newQuestions(c), newAnswer(c)}
}

// commands implements family.
func (c *dataCommands) commands() []*cobra.Command {
	return []*cobra.Command{newVerify(c), newBackup(c), newRestore(c), newArchive(c), newRetain(c), newHold(c), newExport(c), newImport(c)}
}

// commands implements family.
func (c *doctorCommands) commands() []*cobra.Command {
	return []*cobra.Command{newDoctor(c), newUpgrade(c)}
}

// commands implements family.
func (c *mcpCommands) commands() []*cobra.Command { return []*cobra.Command{newMCP(c)} }

// commands returns the commands below `orch mcp`.
func (c *mcpClientCommands) commands() []*cobra.Command {
	return []*cobra.Command{newMCPServe(c), newMCPInstall(c), newMCPUninstall(c), newMCPConformance(c)}
}

// commands returns the commands below `orch mcp`.
func (c *mcpServerCommands) commands() []*cobra.Command {
	return append(newMCPServers(c), newMCPLogins(c)...)
}

// commands implements family.
func (c *messageCommands) commands() []*cobra.Command {
	return []*cobra.Command{newMessage(c)}
}

// commands implements family.
func (c *nodeCommands) commands() []*cobra.Command {
	return []*cobra.Command{newServe(c), newWorker(c), newNodes(c), newUI(c), newBench(c)}
}

// commands implements family.
func (c *planCommands) commands() []*cobra.Command {
	return []*cobra.Command{newPlan(c)}
}

// commands implements family.
func (c *policyCommands) commands() []*cobra.Command {
	return []*cobra.Command{newPolicy(c)}
}

// commands implements family.
func (c *readCommands) commands() []*cobra.Command {
	return []*cobra.Command{newList(c), newQueue(c), newSessions(c), newGet(c), newTree(c), newResult(c), newWatch(c), newLogs(c), newFiles(c), newExplain(c), newHistory(c), newReplay(c), newTrace(c), newDiff(c), newCosts(c)}
}

// commands implements family.
func (c *steerCommands) commands() []*cobra.Command {
	return []*cobra.Command{newCancel(c), newPause(c), newResume(c), newSignal(c), newUndo(c), newResolve(c), newCheckpoint(c)}
}

// commands implements family.
func (c *submitCommands) commands() []*cobra.Command {
	return []*cobra.Command{newSubmit(c), newRetry(c), newFork(c), newRedrive(c)}
}

// commands implements family.
func (c *tokenCommands) commands() []*cobra.Command {
	return []*cobra.Command{newToken(c)}
}

// commands implements family.
func (c *toolCommands) commands() []*cobra.Command {
	return []*cobra.Command{newTools(c)}
}
