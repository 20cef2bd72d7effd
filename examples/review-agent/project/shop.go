// Package shop computes what a basket costs.
package shop

import (
	"fmt"
	"strconv"
	"strings"
)

// Item is a line of a basket. The price is in cents.
type Item struct {
	Name   string
	Price  int
	Number int
}

// Total returns the price of a basket.
func Total(basket []Item) int {
	sum := 0
	for _, item := range basket {
		sum += item.Price * item.Number
	}
	return sum
}

// Parse reads an item, such as "tea,350,2".
func Parse(line string) (Item, error) {
	fields := strings.Split(line, ",")
	if len(fields) != 3 {
		return Item{}, fmt.Errorf("%q has %d fields, not 3", line, len(fields))
	}
	price, err := strconv.Atoi(fields[1])
	if err != nil {
		return Item{}, err
	}
	number, err := strconv.Atoi(fields[2])
	return Item{Name: fields[0], Price: price, Number: number}, err
}
