package tree

import "time"

// KeyLength is the length of the keys that a push generates.
const KeyLength = 20

// alphabet contains the 64 possible characters of these keys in the order of their code points.
const alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// Keys generates the keys of pushes: 8 characters for the time in milliseconds, then 12 random characters. Each key sorts
// after all keys generated before, even within one millisecond and when the clock steps back. The zero value is
// ready to use. It is not safe for concurrent use.
type Keys struct {
	millis int64
	random [12]byte
}

// Next returns the next key for a time and 12 random bytes.
func (k *Keys) Next(at time.Time, random [12]byte) string {
	if millis := at.UnixMilli(); millis > k.millis {
		k.millis = millis
		for i, b := range random {
			k.random[i] = b % 64
		}
	} else {
		k.increment()
	}
	var key [KeyLength]byte
	for i, rest := 7, k.millis; i >= 0; i, rest = i-1, rest/64 {
		key[i] = alphabet[rest%64]
	}
	for i, b := range k.random {
		key[8+i] = alphabet[b]
	}
	return string(key[:])
}

// increment increments the random part by one; on overflow it advances the time by a millisecond.
func (k *Keys) increment() {
	for i := len(k.random) - 1; i >= 0; i-- {
		if k.random[i]++; k.random[i] < 64 {
			return
		}
		k.random[i] = 0
	}
	k.millis++
}
