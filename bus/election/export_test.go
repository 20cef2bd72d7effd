package election

// CheckServer is checkServer.
var CheckServer = checkServer
