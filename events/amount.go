package events

import "math"

// Amounts of tokens and dollars come from providers, which can say anything. A sum or a product that does not fit is the greatest amount:
// it exceeds every limit, where an overflow would be a gain.

// Add returns the sum of two amounts, at most math.MaxInt64 and at least math.MinInt64.
func Add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}

// times returns the cost of tokens at a price, both at least 0, at most math.MaxInt64.
func times(price, tokens int64) int64 {
	price, tokens = max(price, 0), max(tokens, 0)
	if price > 0 && tokens > math.MaxInt64/price {
		return math.MaxInt64
	}
	return price * tokens
}

// sum returns the sum of amounts.
func sum(amounts ...int64) (all int64) {
	for _, a := range amounts {
		all = Add(all, a)
	}
	return all
}
