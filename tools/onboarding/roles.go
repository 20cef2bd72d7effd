package onboarding

// role is the onboarding information for agents of one type.
type role struct {
	greeting, description string
	steps                 []step
	pages, examples       []string
}

// roles returns the information for each agent type of the specification.
func roles() map[string]role {
	return map[string]role{
		"researcher": {
			greeting:    "Sources are waiting to be read.",
			description: "Researchers find out: they search, read and compare sources, and hand over what they have found with its origin.",
			steps: []step{
				{tool: "WEB_SEARCH", title: "Search the web", description: "Finds pages; read the ones that look good before you rely on them."},
				{tool: "WEB_FETCH", title: "Read a page", description: "Fetches one page as text."},
				{tool: "github.searchCode", title: "Search code", description: "Finds how others have done it."},
				{tool: "firebase.read", title: "Read shared data", description: "Reads data that other agents have stored."},
			},
			pages: []string{"docs/reference/questions.md"}, examples: []string{"examples/repo-report.yaml"},
		},
		"developer": {
			greeting:    "There is code to write, and a log that remembers every change.",
			description: "Developers change code: they read before they write, test what they change, and commit in small steps.",
			steps: []step{
				{tool: "FILE_READ", title: "Read a file", description: "A file must be read before it can be edited."},
				{tool: "FILE_EDIT", title: "Change a file", description: "Replaces one text by another; writes outside of the workspace require approval."},
				{tool: "TEST_EXECUTE", title: "Run the tests", description: "Shows which tests pass and fail, before and after a change."},
				{tool: "GIT_COMMIT", title: "Commit", description: "Commits with secrets are rejected, and messages must have the required format."},
			},
			pages: []string{"docs/reference/approvals.md", "docs/reference/policy.md"}, examples: []string{"examples/verify-go.yaml"},
		},
		"coordinator": {
			greeting:    "Others look to you for what comes next.",
			description: "Coordinators plan and hand out: they submit plans of many calls, start agents for their parts, and ask people where that is needed.",
			steps: []step{
				{
					tool: "TASK_SPAWN", args: object{"subagent_type": "NAME", "prompt": "what to do"}, title: "Start an agent",
					description: "Runs a template or a command, or asks a registered agent, as a child task within your own scope.",
				},
				{
					tool: "AGENT_TASK", args: object{"title": "what to do, in a line", "requires": []string{"CAPABILITY"}}, title: "Give work to an agent",
					description: "Waits for a registered agent that can do it, and returns what it reports.",
				},
				{tool: "system.getAgents", title: "See who is there", description: "Lists the agents, what they can do and how busy they are."},
				{tool: "APPROVAL_REQUEST", title: "Ask a person", description: "The task waits until somebody has decided."},
				{tool: "NOTIFICATION_SEND", title: "Tell people", description: "Reaches the channels that the operator has configured."},
			},
			pages: []string{"docs/reference/approvals.md"}, examples: []string{"examples/relay.yaml", "examples/fan-out.yaml", "examples/sub-plan.yaml", "examples/ask-agents.yaml"},
		},
		"analyst": {
			greeting:    "The figures are in; they want to be understood.",
			description: "Analysts examine data: they query, count and compare, change nothing, and say how sure they are.",
			steps: []step{
				{tool: "DATABASE_QUERY", title: "Query a database", description: "A SELECT reads; anything else requires approval."},
				{tool: "GREP_SEARCH", title: "Search files", description: "Finds and counts lines that match."},
				{tool: "firebase.read", title: "Read shared data", description: "Reads data that other agents have stored."},
				{tool: "github.getWorkflowRuns", title: "Look at builds", description: "Lists the workflow runs and their results."},
			},
			pages: []string{"docs/reference/databases.md"}, examples: []string{"examples/count-matches.yaml"},
		},
		"specialist": {
			greeting:    "You know something that others do not.",
			description: "Specialists do one thing well: they take the tasks that need it, and leave other tasks to other agents.",
			steps: []step{
				{tool: "system.getTaskQueue", args: object{"status": "pending"}, title: "See what waits", description: "Look for tasks whose required capabilities are yours."},
			},
			pages: []string{"docs/reference/messages.md"}, examples: []string{"examples/sub-plan.yaml"},
		},
	}
}
