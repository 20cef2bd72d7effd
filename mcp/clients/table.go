package clients

import "path/filepath"

// form is the language of a configuration.
type form int

const (
	// jsonc is JSON, with or without comments and trailing commas.
	jsonc form = iota
	tomlForm
)

// tokenInput is the id of the input with which VS Code prompts for the token. VS Code does not read environment variables in headers
// (microsoft/vscode#336232).
const tokenInput = "orch-token"

// checked is the month in which the pages in the table were last checked.
const checked = "2026-11"

// all returns the table of clients.
func all() []Client {
	return []Client{
		{
			ID: "antigravity", Title: "Antigravity", Source: "https://antigravity.google/docs/mcp", Checked: checked,
			Reload: "refresh the list in Manage MCP Servers",
			user:   inHome(".gemini", "config", "mcp_config.json"), table: []string{"mcpServers"}, form: jsonc,
			stdio: command, // its headers do not support variables
		},
		{
			ID: "claude-code", Title: "Claude Code", Source: "https://code.claude.com/docs/en/mcp", Checked: checked,
			Reload: "start Claude Code again, and look at /mcp",
			user:   claudeCode, project: ".mcp.json", table: []string{"mcpServers"}, form: jsonc,
			stdio: typed(command, "stdio"), http: typed(url("url", "Bearer ${"+TokenVariable+"}"), "http"),
		},
		{
			ID: "claude-desktop", Title: "Claude Desktop", Source: "https://modelcontextprotocol.io/docs/develop/connect-local-servers", Checked: checked,
			Reload: "quit Claude Desktop and start it again",
			user:   appData("Claude", "claude_desktop_config.json"), table: []string{"mcpServers"}, form: jsonc,
			stdio: command,
		},
		{
			ID: "codex", Title: "Codex", Source: "https://developers.openai.com/docs/extend/mcp", Checked: checked,
			Reload: "start Codex again, and look at /mcp",
			user:   codex, project: ".codex/config.toml", table: []string{"mcp_servers"}, form: tomlForm,
			stdio: command, http: bearerVariable,
		},
		{
			ID: "copilot", Title: "Copilot CLI", Source: "https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers", Checked: checked,
			Reload: "start copilot again, and look at /mcp show",
			user:   copilot, project: ".mcp.json", table: []string{"mcpServers"}, form: jsonc,
			stdio: withTools(typed(command, "stdio")), // variables are documented for env, not for headers
		},
		{
			ID: "cursor", Title: "Cursor", Source: "https://cursor.com/docs/mcp", Checked: checked,
			Reload: "start Cursor again, and look at MCPs in its settings",
			user:   inHome(".cursor", "mcp.json"), project: ".cursor/mcp.json", table: []string{"mcpServers"}, form: jsonc,
			stdio: command, http: url("url", "Bearer ${env:"+TokenVariable+"}"),
		},
		{
			ID: "devin", Title: "Devin Desktop", Source: "https://docs.devin.ai/cli/extensibility/mcp/configuration", Checked: checked,
			Reload: "look at the MCP servers in the agent panel",
			user:   devin, project: ".devin/mcp_config.json", table: []string{"mcpServers"}, form: jsonc,
			stdio: command, // variables in headers are not documented
		},
		{
			ID: "gemini", Title: "Gemini CLI", Source: "https://geminicli.com/docs/tools/mcp-server", Checked: checked,
			Reload: "start Gemini CLI again, and look at /mcp",
			user:   inHome(".gemini", "settings.json"), project: ".gemini/settings.json", table: []string{"mcpServers"}, form: jsonc,
			stdio: command, http: url("httpUrl", "Bearer ${"+TokenVariable+"}"),
		},
		{
			ID: "opencode", Title: "OpenCode", Source: "https://opencode.ai/v2/docs/mcp-servers", Checked: checked,
			Reload: "start OpenCode again, and look at opencode mcp list",
			user:   openCode, project: "opencode.json", alternative: ".jsonc", table: []string{"mcp", "servers"}, form: jsonc,
			hasOldForm: isOpenCode1, stdio: commandLine, http: typed(url("url", "Bearer {env:"+TokenVariable+"}"), "remote"),
		},
		{
			ID: "vscode", Title: "VS Code", Source: "https://code.visualstudio.com/docs/agents/reference/mcp-configuration", Checked: checked,
			Reload: "run the command MCP: List Servers in VS Code",
			user:   appData("Code", "User", "mcp.json"), project: ".vscode/mcp.json", table: []string{"servers"}, form: jsonc,
			stdio: typed(command, "stdio"), http: typed(url("url", "Bearer ${input:"+tokenInput+"}"), "http"),
			input: fields{{"type", "promptString"}, {"id", tokenInput}, {"description", "Token of orch"}, {"password", true}},
		},
		{
			ID: "windsurf", Title: "Windsurf", Source: "https://docs.windsurf.com/windsurf/cascade/mcp", Checked: checked,
			Reload: "refresh the list of MCP servers in Cascade",
			user:   inHome(".codeium", "windsurf", "mcp_config.json"), table: []string{"mcpServers"}, form: jsonc,
			stdio: command, http: url("serverUrl", "Bearer ${env:"+TokenVariable+"}"),
		},
		{
			ID: "zed", Title: "Zed", Source: "https://zed.dev/docs/ai/mcp", Checked: checked,
			Reload: "look at the MCP servers in the settings of Zed",
			user:   zed, project: ".zed/settings.json", table: []string{"context_servers"}, form: jsonc,
			stdio: command,
		},
	}
}

// command returns an entry that starts orch.
func command(e Entry) fields {
	return fields{{"command", e.Command}, {"args", e.Args}}
}

// commandLine returns an entry with command and arguments in one list.
func commandLine(e Entry) fields {
	return fields{{"type", "local"}, {"command", append([]string{e.Command}, e.Args...)}}
}

// withTools adds the field tools to an entry, which permits all tools of the server.
func withTools(entry func(Entry) fields) func(Entry) fields {
	return func(e Entry) fields { return append(entry(e), field{"tools", []string{"*"}}) }
}

// isOpenCode1 reports whether the servers in a file are directly below mcp, as in OpenCode 1.
func isOpenCode1(file map[string]any) bool {
	servers, _ := file["mcp"].(map[string]any)
	for name, value := range servers {
		entry, _ := value.(map[string]any)
		if _, typed := entry["type"].(string); typed && name != "servers" {
			return true
		}
	}
	return false
}

// url returns a function that returns an entry with the URL of a node, in the field key. authorization is the Authorization header,
// with a reference to the token in the syntax of the client.
func url(key, authorization string) func(Entry) fields {
	return func(e Entry) fields {
		return fields{{key, e.URL}, {"headers", fields{{"Authorization", authorization}}}}
	}
}

// typed adds the field type, with the kind of the transport, at the beginning of an entry.
func typed(entry func(Entry) fields, kind string) func(Entry) fields {
	return func(e Entry) fields { return append(fields{{"type", kind}}, entry(e)...) }
}

// bearerVariable returns an entry for Codex, which makes the Authorization header from the variable itself.
func bearerVariable(e Entry) fields {
	return fields{{"url", e.URL}, {"bearer_token_env_var", TokenVariable}}
}

// inHome returns a function that returns a path in the home directory.
func inHome(elements ...string) func(Place) string {
	return func(p Place) string { return filepath.Join(append([]string{p.Home}, elements...)...) }
}

// appData returns a function that returns a path in the system's directory for settings of programs.
func appData(elements ...string) func(Place) string {
	return func(p Place) string {
		dir := p.fromEnv("XDG_CONFIG_HOME", ".config")
		switch p.OS {
		case "darwin":
			dir = filepath.Join(p.Home, "Library", "Application Support")
		case "windows":
			dir = p.fromEnv("APPDATA", "AppData", "Roaming")
		}
		return filepath.Join(append([]string{dir}, elements...)...)
	}
}

// zed returns the path of the user's file of Zed, which is in .config on macOS too.
func zed(p Place) string {
	switch p.OS {
	case "windows":
		return filepath.Join(p.fromEnv("APPDATA", "AppData", "Roaming"), "Zed", "settings.json")
	case "darwin":
		return filepath.Join(p.Home, ".config", "zed", "settings.json")
	default:
		return filepath.Join(p.fromEnv("XDG_CONFIG_HOME", ".config"), "zed", "settings.json")
	}
}

func claudeCode(p Place) string {
	return filepath.Join(p.fromEnv("CLAUDE_CONFIG_DIR"), ".claude.json")
}

func copilot(p Place) string {
	return filepath.Join(p.fromEnv("COPILOT_HOME", ".copilot"), "mcp-config.json")
}

// devin returns the path of the user's file of Devin Desktop, which is in .config on macOS too.
func devin(p Place) string {
	if p.OS == "windows" {
		return filepath.Join(p.fromEnv("APPDATA", "AppData", "Roaming"), "devin", "mcp_config.json")
	}
	return filepath.Join(p.Home, ".config", "devin", "mcp_config.json")
}

// openCode returns the path of the user's file of OpenCode, which is in .config on every system.
func openCode(p Place) string {
	return filepath.Join(p.fromEnv("XDG_CONFIG_HOME", ".config"), "opencode", "opencode.json")
}

func codex(p Place) string {
	return filepath.Join(p.fromEnv("CODEX_HOME", ".codex"), "config.toml")
}

// fromEnv returns the directory in an environment variable. If the variable does not contain an absolute path, it returns the
// directory fallback in the home directory.
func (p Place) fromEnv(name string, fallback ...string) string {
	if dir := p.Getenv(name); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(append([]string{p.Home}, fallback...)...)
}
