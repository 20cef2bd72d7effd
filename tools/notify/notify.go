// Package notify is the family of tools that notify people (S0 rules).
package notify

import (
	"context"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// Notice is one notification.
type Notice struct {
	Task events.TaskID `json:"task"`
	Step string        `json:"step,omitempty"`
	// Key is the same for every attempt, so that a receiver can drop duplicates.
	Key string `json:"key"`
	// Priority is low, medium, high or critical.
	Priority string    `json:"priority"`
	Subject  string    `json:"subject"`
	Message  string    `json:"message"`
	At       time.Time `json:"at"`
	// Link is the page on which a person decides or looks further; empty if there is none. The message contains it, too.
	Link string `json:"link,omitempty"`
}

// Config configures the family. The zero value has the channels log and file.
type Config struct {
	// Channels maps names to the URLs of services. The URLs may contain credentials and are never shown. http and https
	// receive a Notice as JSON by POST; the library shoutrrr handles all other schemes, such as smtp://, slack://,
	// ntfy://. The names log, file and nats are reserved for the built-in channels.
	Channels map[string]string
	// Default are the channels for calls that name no channel. Default: log.
	Default []string
	// Publish publishes a notice on the bus of the node. Nil means that the channel nats does not exist.
	Publish func(ctx context.Context, n Notice) error
	// Net configures the addresses that webhooks may access, in addition to public addresses and the configured URLs.
	Net netguard.Config
}

// Tools returns the tools of the family.
func Tools(cfg Config) []tools.Tool { return []tools.Tool{notificationSend(newChannels(cfg))} }
