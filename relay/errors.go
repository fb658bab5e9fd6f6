package relay

import (
	"errors"
	"time"
)

// ErrHeld is reported by a broker for an event that it did not send because an
// earlier event of the same key failed in the same call.
var ErrHeld = errors.New("held: an earlier event of the key failed")

// ErrLeaseLost is returned by a [Leaser] when the caller's lease row is gone or
// has another epoch: another relay took it over. The caller owns nothing then.
var ErrLeaseLost = errors.New("lease lost")

// ErrClaimMode is returned by [Leaser.Join] when live relays of this outbox use
// another claim mode. The caller stands by and tries again.
var ErrClaimMode = errors.New("other relays use another claim mode")

// ErrNoHistory is in [Settled.History] when rows were settled but could not be
// kept in the history of delivered events.
var ErrNoHistory = errors.New("history not writable")

// Unavailable marks err as a failure of the destination, not of the event:
// unreachable, authentication, quota, unknown destination. The destination
// pauses and is probed; no attempt is counted. Unavailable(nil) is nil.
func Unavailable(err error) error { return mark(err, unavailable, 0) }

// Permanent marks err as the broker's final word on this very event (too
// large, invalid): the route's policy applies at once.
func Permanent(err error) error { return mark(err, permanent, 0) }

// Rejected marks err as the broker's refusal of this very event that may pass
// later: its key waits and the attempt counts.
func Rejected(err error) error { return mark(err, rejected, 0) }

// RetryAfter marks err as a failure of the destination, which asked not to be
// called again before d has passed.
func RetryAfter(err error, d time.Duration) error { return mark(err, unavailable, d) }

// Misconfigured marks a store's error as one that retrying cannot heal: a
// missing or foreign table, missing rights, row-level security, a schema
// outside N±1. A relay does not start with it.
func Misconfigured(err error) error { return mark(err, misconfigured, 0) }

// Hint attaches to err what an operator should do next.
func Hint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &hinted{err, hint}
}

// IsUnavailable reports whether err was marked by Unavailable or RetryAfter.
func IsUnavailable(err error) bool { return classOf(err) == unavailable }

// IsPermanent reports whether err was marked by Permanent.
func IsPermanent(err error) bool { return classOf(err) == permanent }

// IsRejected reports whether err was marked by Rejected.
func IsRejected(err error) bool { return classOf(err) == rejected }

// IsMisconfigured reports whether err was marked by Misconfigured.
func IsMisconfigured(err error) bool { return classOf(err) == misconfigured }

// RetryDelay returns the delay of a RetryAfter error, or 0.
func RetryDelay(err error) time.Duration {
	if m, ok := errors.AsType[*marked](err); ok {
		return m.after
	}
	return 0
}

// HintOf returns the hint attached to err, or "".
func HintOf(err error) string {
	if h, ok := errors.AsType[*hinted](err); ok {
		return h.hint
	}
	return ""
}

type class string

const (
	unknown       class = "unknown"
	unavailable   class = "unavailable"
	rejected      class = "rejected"
	permanent     class = "permanent"
	misconfigured class = "misconfigured"
)

type marked struct {
	err   error
	class class
	after time.Duration
}

func (m *marked) Error() string { return m.err.Error() }
func (m *marked) Unwrap() error { return m.err }

type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

func mark(err error, c class, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &marked{err, c, after}
}

func classOf(err error) class {
	if m, ok := errors.AsType[*marked](err); ok {
		return m.class
	}
	return unknown
}
