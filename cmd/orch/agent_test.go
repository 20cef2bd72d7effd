package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// agent0 is an MCP client: "agent CONFIGURATION FILE" starts the server orch of a configuration like a client does, and lets it
// read a file.
func agent0() int {
	if err := talk(os.Args[1], os.Args[2]); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		return 1
	}
	return 0
}

func talk(configuration, file string) error {
	raw, err := os.ReadFile(configuration)
	if err != nil {
		return err
	}
	command, err := serverIn(raw)
	if err != nil {
		return err
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := converse(in, bufio.NewScanner(out), file); err != nil {
		_ = in.Close()
		return err
	}
	if err := in.Close(); err != nil {
		return err
	}
	return cmd.Wait()
}

// serverIn returns the command of orch in a configuration. It removes comments at the ends of lines.
func serverIn(raw []byte) ([]string, error) {
	raw = regexp.MustCompile(`// .*`).ReplaceAll(raw, nil)
	var c struct {
		Servers map[string]struct {
			Command string   `json:"command"`
			Args    []string `json:"args"`
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, err
	}
	s := c.Servers["orch"]
	return append([]string{s.Command}, s.Args...), nil
}

func converse(in io.Writer, out *bufio.Scanner, file string) error {
	say := json.NewEncoder(in)
	type object = map[string]any
	for _, m := range []object{
		{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{
			"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "agent", "version": "1"},
		}},
		{"jsonrpc": "2.0", "method": "notifications/initialized"},
		{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": object{"name": "read", "arguments": object{"file_path": file}}},
	} {
		if err := say.Encode(m); err != nil {
			return err
		}
	}
	for out.Scan() {
		var m struct {
			ID int `json:"id"`
		}
		if json.Unmarshal(out.Bytes(), &m) == nil && m.ID == 2 {
			_, err := os.Stdout.Write(append(out.Bytes(), '\n'))
			return err
		}
	}
	return io.ErrUnexpectedEOF
}
