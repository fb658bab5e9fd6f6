package memory

import (
	"slices"
	"time"

	"github.com/postrider/postrider/relay"
)

// readBytes bounds the payloads of one ReadKeys.
const readBytes = 16 << 20

// budget is what is left of readBytes. The first row always fits.
type budget struct {
	used int
	rows int
}

func (b *budget) fits(r *record) bool {
	if b.rows > 0 && b.used+len(r.Payload) > readBytes {
		return false
	}
	b.rows++
	b.used += len(r.Payload)
	return true
}

// readKeys reads closed keys from one snapshot.
func (t *tables) readKeys(keys []relay.Key, limit int, now time.Time) []relay.KeyRead {
	out := make([]relay.KeyRead, len(keys))
	var b budget
	for i, k := range keys {
		if k.Key == "" {
			out[i] = t.readKeyless(k, limit, now, &b)
		} else {
			out[i] = t.readKey(k, limit, now, &b)
		}
	}
	return out
}

// readKey reads a closed key. Its rows are cut
//
//   - before its lowest row that is not held: that row has an earlier id and
//     must be marked and read first;
//   - before a later row that waits by itself: a transaction with lower ids
//     committed after that row had failed.
func (t *tables) readKey(k relay.Key, limit int, now time.Time, b *budget) relay.KeyRead {
	out := relay.KeyRead{Key: k, Open: true}
	cut := false
	for _, r := range t.rows {
		if r.Row.Key != k {
			continue
		}
		if r.ready() {
			cut = true
		}
		if r.held == "" {
			continue
		}
		first := out.Open
		out.Open = false
		switch {
		case r.waits(now):
			if first {
				out.Blocked, out.Wait = r.held == relay.HeldBlocked, max(r.retryAt.Sub(now), 0)
			}
			return out
		case cut || len(out.Rows) >= limit || !b.fits(r):
			out.More = true
			return out
		}
		out.Rows = append(out.Rows, r.copy())
	}
	return out
}

// readKeyless reads the held rows without a key, each on its own: those whose
// turn has come.
func (t *tables) readKeyless(k relay.Key, limit int, now time.Time, b *budget) relay.KeyRead {
	out := relay.KeyRead{Key: k, Open: true, Blocked: true}
	for _, r := range t.rows {
		if r.Row.Key != k || r.held == "" {
			continue
		}
		out.Open = false
		if r.held != relay.HeldBlocked {
			out.Blocked = false
		}
		switch {
		case r.waits(now):
			if r.held != relay.HeldBlocked {
				out.Wait = sooner(out.Wait, r.retryAt.Sub(now))
			}
		case len(out.Rows) >= limit || !b.fits(r):
			out.More = true
		default:
			out.Rows = append(out.Rows, r.copy())
		}
	}
	if out.Open {
		out.Blocked = false
	}
	if len(out.Rows) > 0 {
		out.Wait = 0
	}
	return out
}

// orphans returns the closed keys that could be read now, after the given one.
func (t *tables) orphans(after relay.Key, now time.Time) []relay.Key {
	found := map[relay.Key]bool{}
	for k, r := range t.heads() {
		found[k] = !r.waits(now)
	}
	for _, r := range t.rows {
		if r.Row.Key.Key == "" && r.held != "" && !r.waits(now) {
			found[r.Row.Key] = true
		}
	}
	var keys []relay.Key
	for k, ready := range found {
		if ready && compareKeys(k, after) > 0 {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}
