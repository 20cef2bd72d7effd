package messages

import "time"

// Limits of messages.
const (
	// MaxSize is the size of a whole message as JSON, in bytes.
	MaxSize = 256 << 10
	// DefaultTTL, MinTTL and MaxTTL are how long a message lives that nobody acknowledges.
	DefaultTTL = 24 * time.Hour
	MinTTL     = time.Second
	MaxTTL     = 7 * 24 * time.Hour
	// MaxQueue is how many messages wait for one recipient, in one group, or for all.
	MaxQueue = 1000
	// MaxMessages and MaxBytes bound all messages that live.
	MaxMessages = 50_000
	MaxBytes    = 256 << 20
	// MaxTakers is how many acknowledge a message to all before it ends for the others, too. MaxTaken is how many
	// acknowledgements are remembered of messages that others still need.
	MaxTakers = 10_000
	MaxTaken  = 1_000_000
	// MaxRecipients bounds the addresses of a message, MaxExcluded those that it leaves out.
	MaxRecipients = 100
	MaxExcluded   = 100
	// MaxGroups is how many groups one is in, MaxMemberships how many memberships there are.
	MaxGroups      = 100
	MaxMemberships = 10_000
	// MaxPage is how many messages one reading returns at most, MaxPageBytes about how many bytes; DefaultPage is how
	// many when nobody says.
	MaxPage      = 100
	MaxPageBytes = 1 << 20
	DefaultPage  = 20
	// MaxWait is how long one reading waits for a message.
	MaxWait = time.Minute
	// MaxAcks is how many messages one request acknowledges.
	MaxAcks = 1000
	// MaxPriority is the most urgent one; DefaultPriority is that of a message that names none.
	MaxPriority     = 4
	DefaultPriority = 2

	maxAddress     = 256
	maxCorrelation = 200
	// maxKey leaves room for those of calls, which name task and step.
	maxKey  = 1 << 10
	maxType = 32
)
