package main

// steerCommands are the commands that change how tasks go on.
type steerCommands struct {
	*connector

	tools *toolset
}
