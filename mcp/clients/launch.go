package clients

import (
	"github.com/orch-dev/orch/fault"
)

// Launch describes how a client starts or reaches a server, according to its configuration.
type Launch struct {
	// Command and Args start the server. Env is added to the environment that the client passes to it.
	Command string
	Args    []string
	Env     map[string]string
	// URL is the address of a server over HTTP; then Command is empty.
	URL string
}

// Launch reads the entry with a name from the content of a file. It returns INVALID_FORMAT for invalid content, NOT_FOUND if there
// is no such entry, and VALIDATION_ERROR if the entry has neither a command nor a URL.
func (c Client) Launch(file string, content []byte, name string) (Launch, error) {
	decoded, err := c.language().decode(file, trimMark(content))
	if err != nil {
		return Launch{}, err
	}
	servers, err := c.servers(file, decoded)
	if err != nil {
		return Launch{}, err
	}
	entry, ok := servers[name].(map[string]any)
	if !ok {
		return Launch{}, fault.New(fault.NotFound, "it has no server %q", name).WithField(file)
	}
	l := launchOf(entry)
	if l.Command == "" && l.URL == "" {
		return Launch{}, fault.New(fault.ValidationError, "its server %q has neither a command nor a URL", name).WithField(file)
	}
	return l, nil
}

// launchOf decodes an entry. It accepts the property names of all clients.
func launchOf(entry map[string]any) Launch {
	l := Launch{Env: map[string]string{}}
	for _, key := range []string{"url", "httpUrl", "serverUrl"} {
		if url, ok := entry[key].(string); ok {
			l.URL = url
		}
	}
	switch command := entry["command"].(type) {
	case string:
		l.Command, l.Args = command, texts(entry["args"])
	case []any:
		if line := texts(command); len(line) > 0 {
			l.Command, l.Args = line[0], line[1:]
		}
	}
	for _, key := range []string{"env", "environment"} {
		values, _ := entry[key].(map[string]any)
		for name, value := range values {
			if text, ok := value.(string); ok {
				l.Env[name] = text
			}
		}
	}
	return l
}

// texts returns the strings of a decoded list.
func texts(list any) []string {
	var all []string
	values, _ := list.([]any)
	for _, value := range values {
		if text, ok := value.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
