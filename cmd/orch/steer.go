package main

// steerCommands are the commands that control tasks.
type steerCommands struct {
	*connector

	tools *toolset
}
