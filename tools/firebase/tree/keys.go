package tree

import "time"

// KeyLength is the length of the keys that push makes.
const KeyLength = 20

// alphabet holds the 64 characters of such a key in the order of their code points.
const alphabet = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"

// Keys makes the keys of push: 8 characters of time in milliseconds, then 12 of chance. Each sorts after
// all that were made before it, also within one millisecond and when the clock steps back. The zero
// value is ready; it is not safe for concurrent use.
type Keys struct {
	millis int64
	chance [12]byte
}

// Next returns the next key for a time and for 12 random bytes.
func (k *Keys) Next(at time.Time, random [12]byte) string {
	if millis := at.UnixMilli(); millis > k.millis {
		k.millis = millis
		for i, b := range random {
			k.chance[i] = b % 64
		}
	} else {
		k.increment()
	}
	var key [KeyLength]byte
	for i, rest := 7, k.millis; i >= 0; i, rest = i-1, rest/64 {
		key[i] = alphabet[rest%64]
	}
	for i, b := range k.chance {
		key[8+i] = alphabet[b]
	}
	return string(key[:])
}

// increment counts the part of chance up by one; when it is used up, the time goes on by a millisecond.
func (k *Keys) increment() {
	for i := len(k.chance) - 1; i >= 0; i-- {
		if k.chance[i]++; k.chance[i] < 64 {
			return
		}
		k.chance[i] = 0
	}
	k.millis++
}
