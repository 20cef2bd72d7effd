package destinations

import (
	"strconv"
	"strings"
	"time"
)

// delays returns the times between the attempts of a delivery, which the specification recommends.
func delays() []time.Duration {
	const minute, hour = time.Minute, time.Hour
	return []time.Duration{5 * time.Second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour}
}

// MaxAttempts is the number of attempts after which a delivery is a dead letter.
func MaxAttempts() int { return len(delays()) + 1 }

// longestWait bounds what a receiver may ask for with Retry-After.
const longestWait = 24 * time.Hour

// Next returns when a delivery that has failed a number of times is tried again, at the earliest at a time that the receiver has asked
// for, zero for none; false after the last attempt. random is between 0 and 1: up to a tenth is added to the delay.
func Next(failed int, now, asked time.Time, random float64) (time.Time, bool) {
	all := delays()
	if failed < 1 || failed > len(all) {
		return time.Time{}, false
	}
	delay := all[failed-1]
	next := now.Add(delay + time.Duration(random*float64(delay)/10))
	if latest := now.Add(longestWait); asked.After(latest) {
		asked = latest
	}
	if asked.After(next) {
		next = asked
	}
	return next, true
}

// RetryAfter returns the time that a Retry-After header asks for; zero if there is none that can be read.
func RetryAfter(value string, now time.Time) time.Time {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return now.Add(longestWait) // more than decades
		}
		return now.Add(time.Duration(seconds) * time.Second)
	}
	at, err := time.Parse("Mon, 02 Jan 2006 15:04:05 GMT", value)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Accepted reports whether the status of an answer acknowledges a delivery.
func Accepted(status int) bool { return status >= 200 && status <= 299 }

// Gone reports whether the status of an answer asks for no further deliveries.
func Gone(status int) bool { return status == 410 }
