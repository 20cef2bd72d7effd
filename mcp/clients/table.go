package clients

import "path/filepath"

// form is the language of a configuration.
type form int

const (
	// jsonc is JSON in which comments and trailing commas are kept; plain JSON is a part of it.
	jsonc form = iota
	tomlForm
)

// tokenInput names what VS Code asks for: it does not read the environment for headers (microsoft/vscode#336232).
const tokenInput = "orch-token"

func all() []Client {
	return []Client{
		{
			ID: "claude-code", Title: "Claude Code", Source: "https://code.claude.com/docs/en/mcp",
			Reload: "start Claude Code again, and look at /mcp",
			user:   claudeCode, project: ".mcp.json", table: "mcpServers", form: jsonc,
			stdio: typed(command, "stdio"), http: typed(url("url", "Bearer ${"+TokenVariable+"}"), "http"),
		},
		{
			ID: "claude-desktop", Title: "Claude Desktop", Source: "https://modelcontextprotocol.io/docs/develop/connect-local-servers",
			Reload: "quit Claude Desktop and start it again",
			user:   appData("Claude", "claude_desktop_config.json"), table: "mcpServers", form: jsonc,
			stdio: command,
		},
		{
			ID: "codex", Title: "Codex", Source: "https://developers.openai.com/codex/mcp",
			Reload: "start Codex again, and look at /mcp",
			user:   codex, project: ".codex/config.toml", table: "mcp_servers", form: tomlForm,
			stdio: command, http: bearerVariable,
		},
		{
			ID: "cursor", Title: "Cursor", Source: "https://cursor.com/docs/mcp",
			Reload: "start Cursor again, and look at MCPs in its settings",
			user:   inHome(".cursor", "mcp.json"), project: ".cursor/mcp.json", table: "mcpServers", form: jsonc,
			stdio: command, http: url("url", "Bearer ${env:"+TokenVariable+"}"),
		},
		{
			ID: "gemini", Title: "Gemini CLI", Source: "https://geminicli.com/docs/tools/mcp-server",
			Reload: "start Gemini CLI again, and look at /mcp",
			user:   inHome(".gemini", "settings.json"), project: ".gemini/settings.json", table: "mcpServers", form: jsonc,
			stdio: command, http: url("httpUrl", "Bearer ${"+TokenVariable+"}"),
		},
		{
			ID: "vscode", Title: "VS Code", Source: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
			Reload: "run the command MCP: List Servers in VS Code",
			user:   appData("Code", "User", "mcp.json"), project: ".vscode/mcp.json", table: "servers", form: jsonc,
			stdio: typed(command, "stdio"), http: typed(url("url", "Bearer ${input:"+tokenInput+"}"), "http"),
			input: fields{{"type", "promptString"}, {"id", tokenInput}, {"description", "Token of orch"}, {"password", true}},
		},
		{
			ID: "windsurf", Title: "Windsurf", Source: "https://docs.windsurf.com/windsurf/cascade/mcp",
			Reload: "refresh the list of MCP servers in Cascade",
			user:   inHome(".codeium", "windsurf", "mcp_config.json"), table: "mcpServers", form: jsonc,
			stdio: command, http: url("serverUrl", "Bearer ${env:"+TokenVariable+"}"),
		},
		{
			ID: "zed", Title: "Zed", Source: "https://zed.dev/docs/ai/mcp",
			Reload: "look at the MCP servers in the settings of Zed",
			user:   zed, project: ".zed/settings.json", table: "context_servers", form: jsonc,
			stdio: command,
		},
	}
}

// command is an entry that starts orch.
func command(e Entry) fields {
	return fields{{"command", e.Command}, {"args", e.Args}}
}

// url makes entries of a running node; the header names the variable with the token in the way of the client.
func url(key, authorization string) func(Entry) fields {
	return func(e Entry) fields {
		return fields{{key, e.URL}, {"headers", fields{{"Authorization", authorization}}}}
	}
}

// typed puts the kind of the transport before an entry.
func typed(entry func(Entry) fields, kind string) func(Entry) fields {
	return func(e Entry) fields { return append(fields{{"type", kind}}, entry(e)...) }
}

// bearerVariable is an entry of Codex, which makes the header itself.
func bearerVariable(e Entry) fields {
	return fields{{"url", e.URL}, {"bearer_token_env_var", TokenVariable}}
}

func inHome(elements ...string) func(Place) string {
	return func(p Place) string { return filepath.Join(append([]string{p.Home}, elements...)...) }
}

// appData names a file in the folder that the system has for settings of programs.
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

// zed keeps to .config on macOS too.
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

func codex(p Place) string {
	return filepath.Join(p.fromEnv("CODEX_HOME", ".codex"), "config.toml")
}

// fromEnv returns a directory that a variable names, or one below the home.
func (p Place) fromEnv(name string, otherwise ...string) string {
	if dir := p.Getenv(name); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(append([]string{p.Home}, otherwise...)...)
}
