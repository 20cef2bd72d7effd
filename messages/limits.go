package messages

import "time"

// Limits of messages.
const (
	// MaxSize bounds a message encoded as JSON, in bytes.
	MaxSize = 256 << 10
	// DefaultTTL, MinTTL and MaxTTL are lifetimes of messages that nobody acknowledges.
	DefaultTTL = 24 * time.Hour
	MinTTL     = time.Second
	MaxTTL     = 7 * 24 * time.Hour
	// MaxQueue bounds the pending messages of one address: a recipient, a group, or all.
	MaxQueue = 1000
	// MaxMessages and MaxBytes bound all live messages.
	MaxMessages = 50_000
	MaxBytes    = 256 << 20
	// MaxAckers is how many acknowledgements remove a message to all for everybody. MaxStoredAcks bounds the stored
	// acknowledgements of messages that are still pending for others.
	MaxAckers     = 10_000
	MaxStoredAcks = 1_000_000
	// MaxRecipients bounds the addresses of a message, MaxExcluded its excluded addresses.
	MaxRecipients = 100
	MaxExcluded   = 100
	// MaxGroups bounds the groups of one identity, MaxMemberships all memberships.
	MaxGroups      = 100
	MaxMemberships = 10_000
	// MaxPage bounds the messages of one page, MaxPageBytes its approximate size. DefaultPage is the default number of
	// messages.
	MaxPage      = 100
	MaxPageBytes = 1 << 20
	DefaultPage  = 20
	// MaxWait bounds how long one read waits for a message.
	MaxWait = time.Minute
	// MaxAcks bounds the messages that one request acknowledges.
	MaxAcks = 1000
	// MaxPriority is the most urgent priority. DefaultPriority is the priority of a message without one.
	MaxPriority     = 4
	DefaultPriority = 2

	maxAddress     = 256
	maxCorrelation = 200
	// maxKey leaves room for the keys of calls, which contain task and step.
	maxKey  = 1 << 10
	maxType = 32
)
