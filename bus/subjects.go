package bus

// The subjects of requests.
const (
	// CommandPrefix is the prefix of the commands of faces to the node.
	CommandPrefix = "orch.cmd"
	// WorkPrefix is the prefix of the calls of workers to the node. Workers may also publish notifications.
	WorkPrefix = "orch.work"
	// ServersPrefix is the prefix of the requests about the MCP servers of a node. Only the operator's credential may send
	// them: they start programs and accept definitions of servers.
	ServersPrefix = "orch.servers"
	// NodesPrefix is the prefix of the requests about the nodes that share a log.
	NodesPrefix = "orch.nodes"
	// AuditPrefix is the prefix of audit reports that faces in other processes send about their clients. Only the operator's
	// credential may send them.
	AuditPrefix = "orch.audit"
	// DatabasePrefix is the prefix of the requests of workers about the databases of a node.
	DatabasePrefix = WorkPrefix + ".firebase"
	// SessionPrefix is the prefix of the requests of faces about sessions with subscriptions. Only the operator's
	// credential may send them.
	SessionPrefix = "orch.session"
	// AgentPrefix is the prefix of the requests about agents. Only the operator's credential may send them: they name the
	// identity they are for, and fetch secrets.
	AgentPrefix = "orch.agents"
	// TokenPrefix is the prefix of the requests about tokens. Only the operator's credential may send them.
	TokenPrefix = "orch.token"
	// MessagesPrefix is the prefix of the requests of faces about messages. Only the operator's credential may send them:
	// they name the identity they are for.
	MessagesPrefix = "orch.messages"
	// WorkMessagesPrefix is the prefix of requests about messages from running calls. They name the call; the node knows the identity it runs for.
	WorkMessagesPrefix = WorkPrefix + ".messages"
	// TunnelSubject is where the active node of a cluster accepts tunnels to its HTTP faces. A tunnel is like a connection
	// over the network: requests inside it still need a credential.
	TunnelSubject = "orch.tunnel"
	// AgentSubjects is the root of "orch.agent.<id of the agent>.tasks", .status, .results and .credential. The id identifies
	// the sender, because the server lets only that agent publish there.
	AgentSubjects = "orch.agent"
	// IdentitySubjects is the root of "orch.as.<digest of the secret>.<method>". The digest identifies the sender: the embedded server
	// lets only connections with that secret publish there, not even the operator. An external server applies its own permissions.
	IdentitySubjects = "orch.as"
)

// The subjects of replies.
const (
	// Inboxes is the root of the subjects of replies.
	Inboxes = "_INBOX"
	// workerInbox separates replies to workers, so that a worker cannot read the replies to others.
	workerInbox = "_INBOX_worker"
)

// AgentInbox returns the prefix of the reply subjects of an agent. The agent may subscribe to no others.
func AgentInbox(id string) string { return Inboxes + "." + id }

// IdentityInbox returns the prefix of the reply subjects of the owner of a token, by the digest of its secret.
func IdentityInbox(digest string) string { return Inboxes + "." + digest }
