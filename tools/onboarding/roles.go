package onboarding

// role is what an agent of a role is told.
type role struct {
	greeting, description string
	steps                 []step
	pages, examples       []string
}

// roles are those of the specification.
func roles() map[string]role {
	return map[string]role{
		"researcher": {
			greeting:    "Sources are waiting to be read.",
			description: "Researchers find out: they search, read and compare sources, and hand over what they have found with its origin.",
			steps: []step{
				{"WEB_SEARCH", nil, "Search the web", "Finds pages; read the ones that look good before you rely on them."},
				{"WEB_FETCH", nil, "Read a page", "Fetches one page as text."},
				{"github.searchCode", nil, "Search code", "Finds how others have done it."},
				{"firebase.read", nil, "Read shared data", "Sees what other agents have left."},
			},
			pages: []string{"docs/questions.md"}, examples: []string{"examples/repo-report.yaml"},
		},
		"developer": {
			greeting:    "There is code to write, and a log that remembers every change.",
			description: "Developers change code: they read before they write, test what they change, and commit in small steps.",
			steps: []step{
				{"FILE_READ", nil, "Read a file", "A file has to be read before it can be edited."},
				{"FILE_EDIT", nil, "Change a file", "Replaces one text by another; writes outside of the workspace ask for approval."},
				{"TEST_EXECUTE", nil, "Run the tests", "Says what passes and what fails, before and after a change."},
				{"GIT_COMMIT", nil, "Commit", "Secrets are refused, and messages have a form."},
			},
			pages: []string{"docs/approvals.md", "docs/policy.md"}, examples: []string{"examples/verify-go.yaml"},
		},
		"coordinator": {
			greeting:    "Others look to you for what comes next.",
			description: "Coordinators plan and hand out: they submit plans of many calls, start agents for their parts, and ask people where that is needed.",
			steps: []step{
				{"TASK_SPAWN", nil, "Start an agent", "Runs a template or a command as a child task, within your own scope."},
				{"system.getAgents", nil, "See who is there", "Lists the agents, what they can do and how busy they are."},
				{"APPROVAL_REQUEST", nil, "Ask a person", "The task waits until somebody has decided."},
				{"NOTIFICATION_SEND", nil, "Tell people", "Reaches the channels that the operator has configured."},
			},
			pages: []string{"docs/agents.md", "docs/approvals.md"}, examples: []string{"examples/fan-out.yaml", "examples/sub-plan.yaml", "examples/ask-agents.yaml"},
		},
		"analyst": {
			greeting:    "The figures are in; they want to be understood.",
			description: "Analysts look into data: they query, count and compare, change nothing, and say how sure they are.",
			steps: []step{
				{"DATABASE_QUERY", nil, "Query a database", "A SELECT reads; anything else asks for approval."},
				{"GREP_SEARCH", nil, "Search files", "Finds and counts lines that match."},
				{"firebase.read", nil, "Read shared data", "Sees what other agents have left."},
				{"github.getWorkflowRuns", nil, "Look at builds", "Says which workflows ran and how they ended."},
			},
			pages: []string{"docs/databases.md"}, examples: []string{"examples/count-matches.yaml"},
		},
		"specialist": {
			greeting:    "You know something that others do not.",
			description: "Specialists do one thing well: they take the tasks that need it, and leave the others to others.",
			steps: []step{
				{"system.getTaskQueue", object{"status": "pending"}, "See what waits", "Look for tasks whose required capabilities are yours."},
			},
			pages: []string{"docs/agents.md"}, examples: []string{"examples/sub-plan.yaml"},
		},
	}
}
