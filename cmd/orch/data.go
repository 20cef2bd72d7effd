package main

// dataCommands are the commands about the data that a node keeps.
type dataCommands struct {
	*connector
}
