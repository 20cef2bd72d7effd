package main

// nodeCommands are the commands that run, list and measure nodes.
type nodeCommands struct {
	*connector
}
