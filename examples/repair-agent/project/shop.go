// Package shop computes what a basket costs.
package shop

// Item is a line of a basket. The price is in cents.
type Item struct {
	Name   string
	Price  int
	Number int
}

// Total returns the price of a basket. Every third piece of an item is free.
func Total(basket []Item) int {
	sum := 0
	for _, item := range basket {
		free := item.Number / 2
		sum += item.Price * (item.Number - free)
	}
	return sum
}
