package relay

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"
)

// backoff doubles from base to cap, with jitter upwards only, so that a wait is
// never shorter than it says.
type backoff struct {
	base, cap time.Duration
	n         int
}

func (b *backoff) next() time.Duration {
	d := b.cap
	if b.n < 32 { // later shifts would overflow into the past
		d = min(b.base<<b.n, b.cap)
	}
	if d <= 0 {
		d = b.cap
	}
	b.n = min(b.n+1, 64)
	return d + jitterUp(d)
}

func (b *backoff) reset() { b.n = 0 }

func jitterUp(d time.Duration) time.Duration {
	if d < 10 {
		return 0
	}
	return rand.N(d / 10)
}

const (
	firstRetry = time.Second
	// longestRetry is the largest back-off of a key.
	longestRetry = time.Minute
)

// LongestWait is more than a relay ever asks an event to wait: the largest
// back-off, or what a destination may ask for, with jitter. A store takes a
// retry_at further ahead than that as due: it was written by a clock that has
// since been set back, and must not hold its key for so long.
const LongestWait = max(longestRetry, longestRetryAfter) * 11 / 10

// retryDelay is how long a key waits after its n-th rejection: 1, 2, 4 … 60 s,
// with jitter.
func retryDelay(n int) time.Duration {
	b := backoff{base: firstRetry, cap: longestRetry, n: max(n-1, 0)}
	return min(b.next(), longestRetry+longestRetry/10)
}

// saturated is the next value of an attempt counter. It stops at the largest
// the column can hold, because one row's overflow would fail a whole batch.
func saturated(attempts int) int {
	if attempts >= math.MaxInt32 {
		return math.MaxInt32
	}
	return attempts + 1
}

// maxErrorBytes bounds last_error and causes.
const maxErrorBytes = 1000

// safeError makes an error's text fit to be stored and logged: valid UTF-8
// without control characters, cut on a rune boundary. It can never make a
// settle fail.
func safeError(err error) string {
	if err == nil {
		return ""
	}
	return cleanText(err.Error(), maxErrorBytes)
}

func cleanText(s string, limit int) string {
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if r < 0x20 || r == 0x7F {
			return -1
		}
		return r
	}, s)
	if len(s) <= limit {
		return s
	}
	cut := limit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
