package main

// dataCommands are the commands about the data of a node.
type dataCommands struct {
	*connector
}
