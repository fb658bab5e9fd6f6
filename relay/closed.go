package relay

import (
	"slices"
	"time"
)

// # Closed keys
//
// A key with a held row is closed: the fetch leaves its rows out. Its owner
// reads it by itself when its head's time has come, publishes what the read
// gives and settles it, and reads again until there is no held row left. Then
// the key is open, and the fetch brings its rows again.
//
//	fetch.Due, HeldKeys, own work done
//	          │
//	          ▼                rows                 settled
//	       to read ──► read ─────────► queue, calls ────────► to read
//	                     │ waiting, blocked: forget, the store knows
//	                     │ no held row: open
//
// The read stops before the lowest row of the key that is not held. Such a row
// is in flight, or a fetch is about to mark it; reading again a moment later
// finds it.
//
// closedKey is only what this relay is doing about a closed key; one that waits
// in the store needs none. While there is one, no fetched row of the key is
// sent.
type closedKey struct {
	key      Key
	pending  int // settlements on their way that decide about its rows
	items    int // its rows in memory
	reading  bool
	queued   bool // in keeper.toRead
	wantRead bool
}

type keeper struct {
	closed   map[Key]*closedKey
	overfull []*queue
	toRead   []*closedKey
	later    []laterRead
	reading  bool
	readLost Lanes // given up or lost since the read on its way was sent
	sweeping bool  // a HeldKeys query is on its way
	cursor   Key
	sweepAll bool // page through all held keys at once
	nextPage time.Time

	sweepAgain bool // once more when the sweep is through
	chores
}

type laterRead struct {
	ck *closedKey
	at time.Time
}

const (
	keysPerRead = 200
	rowsPerRead = 2000
	keysPerPage = 500
	// pageRest is how many times longer than a page the wait for the next one is,
	// at least: it passes over all keys that wait, 100,000 blocked ones take the
	// server a second, and each relay pages.
	pageRest = 20
	// rereadAfter is the wait before a key is read again whose next row was not
	// held yet.
	rereadAfter = 20 * time.Millisecond
)

func (k *keeper) reset() {
	*k = keeper{closed: map[Key]*closedKey{}, sweepAll: true}
}

// own makes an item count among those of a closed key.
func (it *item) own(ck *closedKey) {
	it.closed = ck
	ck.items++
}

// close closes a key here; in the store it is closed, or about to be.
func (p *pump) close(k Key) *closedKey {
	ck := p.closed[k]
	if ck == nil {
		ck = &closedKey{key: k}
		p.closed[k] = ck
		p.touch(k)
	}
	return ck
}

// decided is called when a settlement about a key has committed.
func (p *pump) decided(ck *closedKey) {
	ck.pending--
	p.touch(ck.key)
	p.keyIdle(ck)
}

// keyIdle sees what is next for a closed key when something about it is done.
func (p *pump) keyIdle(ck *closedKey) {
	if ck.pending > 0 || ck.items > 0 || ck.reading || ck.queued || p.closed[ck.key] != ck {
		return
	}
	if !ck.wantRead || p.stopping {
		delete(p.closed, ck.key)
		p.touch(ck.key)
		return
	}
	ck.queued, ck.wantRead = true, false
	p.toRead = append(p.toRead, ck)
}

// wantRead asks for a closed key to be read, if it is ours and may be sent.
func (p *pump) wantRead(k Key) {
	if p.stopping || !p.mayRead(k) {
		return
	}
	ck := p.close(k)
	ck.wantRead = true
	p.keyIdle(ck)
}

func (p *pump) mayRead(k Key) bool {
	if k.Key != "" && !p.ownsKey(k.Key) {
		return false
	}
	t := p.topicOf(k.Topic)
	return t.route != nil && !p.topicPaused(t)
}

// keysBusy reports whether this relay is doing something about a closed key, or
// has not yet looked at all of them.
func (p *pump) keysBusy() bool {
	if p.reading || p.sweeping || p.sweepAll {
		return true
	}
	for _, ck := range p.closed {
		if ck.items == 0 || ck.pending > 0 { // else it waits for its items alone
			return true
		}
	}
	return false
}

func (p *pump) stepKeys(now time.Time) {
	p.later = slices.DeleteFunc(p.later, func(l laterRead) bool {
		if now.Before(l.at) {
			p.wakeBy(l.at)
			return false
		}
		l.ck.wantRead = true
		l.ck.reading = false
		p.keyIdle(l.ck)
		return true
	})
	if p.stopping || !p.serves() {
		return
	}
	p.readKeys()
	p.page(now)
}

// readKeys reads the next closed keys, as far as there is room for their rows.
func (p *pump) readKeys() {
	if p.reading || len(p.toRead) == 0 || len(p.items) >= 4*p.db.Batch || p.bytes >= p.budget {
		return
	}
	n := min(len(p.toRead), keysPerRead)
	cks := slices.Clone(p.toRead[:n])
	p.toRead = slices.Delete(p.toRead, 0, n)
	keys := make([]Key, n)
	for i, ck := range cks {
		ck.queued, ck.reading = false, true
		keys[i] = ck.key
	}
	p.reading, p.readLost = true, Lanes{}
	history := p.history
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(fetchTimeout)
		defer cancel()
		reads, err := p.store.ReadKeys(ctx, keys, max(1, rowsPerRead/n))
		return func() {
			if p.history != history {
				return
			}
			p.reading = false
			p.noteDatabase(err)
			for i, ck := range cks {
				if err != nil || i >= len(reads) {
					p.readLater(ck, time.Second)
					continue
				}
				ck.reading = false
				p.keyRead(ck, &reads[i])
			}
		}
	})
}

func (p *pump) readLater(ck *closedKey, after time.Duration) {
	ck.reading = true // nobody else reads it meanwhile
	p.later = append(p.later, laterRead{ck, time.Now().Add(after)})
}

func (p *pump) keyRead(ck *closedKey, r *KeyRead) {
	if p.stopping || !p.mayRead(ck.key) {
		p.keyIdle(ck)
		return
	}
	if ck.key.Key != "" && p.readLost.Has(LaneOf(ck.key.Key, [16]byte{})) {
		// The lane was away meanwhile: another relay may have sent these.
		ck.wantRead = true
		p.keyIdle(ck)
		return
	}
	if ck.pending > 0 { // a mark is on its way: what was read may be old
		ck.wantRead = true
		return
	}
	t := p.topicOf(ck.key.Topic)
	for i := range r.Rows {
		row := &r.Rows[i]
		if p.items[row.ID] != nil { // its settle is on its way
			r.More = true
			break
		}
		if ck.key.Key == "" && (!p.ownsRow(row) || p.readLost.Has(LaneOf("", row.EventID))) {
			continue
		}
		it := &item{row: *row}
		it.own(ck)
		p.enqueue(it, t, true)
	}
	switch {
	case ck.items > 0:
		ck.wantRead = true
	case r.More:
		p.readLater(ck, rereadAfter)
	default: // open, blocked, or waiting: the store knows
		if r.Open {
			p.again = true
		}
		p.keyIdle(ck)
	}
}

// page looks through the held keys for those that wait for nobody: after lanes
// were gained all at once, otherwise a page now and then, since an operator or
// a dying relay may leave a key without a head.
func (p *pump) page(now time.Time) {
	if p.sweeping {
		return
	}
	if now.Before(p.nextPage) {
		p.wakeBy(p.nextPage)
		return
	}
	if len(p.toRead) >= keysPerPage {
		return
	}
	p.sweeping = true
	after, history, began := p.cursor, p.history, now
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(fetchTimeout)
		defer cancel()
		keys, more, err := p.store.HeldKeys(ctx, after, keysPerPage)
		return func() {
			if p.history != history {
				return
			}
			p.sweeping = false
			p.nextPage = time.Now().Add(max(p.db.SweepInterval, pageRest*time.Since(began)))
			p.noteDatabase(err)
			if err != nil {
				return // a sweep waits too: it would spin while the database is away
			}
			for _, k := range keys {
				p.wantRead(k)
			}
			if more && len(keys) > 0 {
				p.cursor = keys[len(keys)-1]
			} else {
				p.cursor, p.sweepAll = Key{}, p.sweepAgain
				p.sweepAgain = false
			}
			if p.sweepAll {
				p.nextPage = time.Now()
			}
		}
	})
}

// sweepKeys pages through all held keys from the start.
func (p *pump) sweepKeys(now time.Time) {
	p.nextPage = now
	if p.sweeping || p.cursor != (Key{}) {
		p.sweepAgain = true
	}
	p.sweepAll = true
}
