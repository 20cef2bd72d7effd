package server

// codingTools returns the tools for work on a project. Their definitions take less than 8 KiB in a list, without agent, which is
// listed only where agent files are.
func codingTools() []profileTool {
	return []profileTool{
		{"find", "GLOB_SEARCH", "Find files by name, newest first, such as **/*.go. For their text use grep.", []string{"pattern", "path?: folder"}, nil},
		{"grep", "GREP_SEARCH", "Search the text of files by a regular expression (RE2; (?i) ignores case).", []string{"pattern", "path?: file or folder", "glob?: of file names, such as *.go", "output_mode?"}, nil},
		{"read", "FILE_READ", "Read a file with numbered lines. Needed before edit. For long files give offset and limit.", []string{"file_path", "offset?: first line, from 1", "limit?"}, nil},
		{"edit", "FILE_EDIT", "Replace an exact text in a file that was read in this session. The text must occur once, or set replace_all. For several places: patch.", []string{"file_path", "old_string: with its white space, without line numbers", "new_string", "replace_all?"}, nil},
		{"patch", "patch_apply", "Apply a unified diff to a file, all of it or nothing. For one place edit is simpler.", []string{"path", "patch: unified diff"}, nil},
		{"write", "FILE_WRITE", "Write a whole file, new or in place of another. For a part: edit.", []string{"file_path", "content"}, nil},
		{"delete", "FILE_DELETE", "Delete a file. Always asks a person.", []string{"file_path"}, nil},
		{"bash", "BASH_EXECUTE", "Run a shell command, without input. Also to move and copy files, and git beside its tools: log, branches, checkout, push. Not to read, search or edit. Destructive ones ask a person.", []string{"command", "timeout?: ms"}, nil},
		{"test", "TEST_EXECUTE", "Run tests and say which fail and why (go, npm, jest, vitest, node, pytest, cargo). Not by bash.", []string{"test_path?: file or folder", "coverage?"}, nil},
		{"build", "BUILD_EXECUTE", "Build the project, or check that it compiles.", []string{"build_command?"}, nil},
		{"install", "PACKAGE_INSTALL", "Add a package to the project (npm, pip, cargo, go). New ones ask a person.", []string{"package_name", "version?", "package_manager?"}, nil},
		{"git_status", "GIT_STATUS", "Show the branch, and the staged, changed and untracked files.", nil, nil},
		{"git_diff", "GIT_DIFF", "Show what is not committed, what is staged, or all since a branch or commit (base).", []string{"staged?", "base?"}, nil},
		{"git_add", "GIT_ADD", "Stage files for a commit.", []string{"file_paths"}, nil},
		{"git_commit", "GIT_COMMIT", "Commit what is staged.", []string{"message: first line as in Conventional Commits (fix: …), at most 72 characters"}, nil},
		{"web_fetch", "WEB_FETCH", "Get the text of a web page or a file by its URL.", []string{"url"}, map[string]string{"prompt": `"the content"`}},
		{"checkpoint", "CHECKPOINT_CREATE", "Keep notes of where you are (an object) for after an interruption. It keeps no files.", []string{"checkpoint_name", "state_data"}, nil},
		{"restore", "CHECKPOINT_RESTORE", "Get the notes of a checkpoint back.", []string{"checkpoint_id"}, nil},
		{"ask", "APPROVAL_REQUEST", "Ask a person for a yes before you do something; tools that need it ask by themselves. No choices: ask those in the chat. tool and arguments in details bind it.", []string{"description: what, for the person", "rationale: why", "details?"}, map[string]string{"request_type": `"pre_execution"`, "timeout": "3600", "priority": `"medium"`, "details": "{}"}},
		{"asked", "APPROVAL_CHECK", "See whether a person has decided about an approval.", []string{"approval_id"}, nil},
		{"undo", "PROJECT_UNDO", "Take back what this session, and nobody else, has changed in files. A person is asked first.", []string{"task?: only this call", "dry_run?: only look"}, nil},
		{"submit", toolSubmit, "Run a plan of many calls as one durable task, with dependencies, retries and approvals. For one call use its tool. Resource " + planSchemaURI + " describes plans.", []string{"plan: object or YAML: {orch: v1, name, steps: [{id, tool, with, needs}]}", "inputs?", "validate_only?"}, nil},
		{"agent", toolSpawn, "Give work to an agent of the project, as a durable task; answers with its report.", []string{"subagent_type: name of the agent", "prompt: what it is to do", "model?"}, nil},
		{"status", toolStatus, "Show how far a task is, and why it does not move.", []string{"task_id"}, nil},
		{"cancel", toolCancel, "Stop a task.", []string{"task_id"}, nil},
		{"result", toolResult, "Wait for the result of a plan, or of a call that was handed back. Also shows more of a large result.", []string{"task_id", "wait_seconds?", "field?", "offset?"}, nil},
	}
}
