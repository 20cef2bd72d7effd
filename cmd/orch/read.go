package main

// readCommands are the commands that show tasks.
type readCommands struct {
	*connector

	wait *waiter
}
