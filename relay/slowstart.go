package relay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// # Slow start after a crash
//
// A row can kill the process that sends it. After a takeover from a relay that
// did not release its lanes, calls hold 1, 2, 4 … events, each after the one
// before has been settled. While a call holds one event, a note that it is sent
// alone is committed before it, and taken back by its outcome. An event that is
// found with the note of its third time alone killed three relays: it is
// blocked as a suspect. It is never a dead letter, since nobody refused it.
type slowStart struct{ size int } // 0: off

// suspectAfter is the number of crashes with an event alone in flight.
const suspectAfter = 3

func (s *slowStart) begin()      { s.size = 1 }
func (s *slowStart) alone() bool { return s.size == 1 }

func (s *slowStart) limit(batch int) int {
	if s.size == 0 || s.size > batch {
		return batch
	}
	return s.size
}

// settled is told that delivered rows have committed.
func (s *slowStart) settled(rows, batch int) {
	if s.size == 0 || rows == 0 {
		return
	}
	if s.size *= 2; s.size >= batch {
		s.size = 0
	}
}

// admitsCall reports whether another call may begin.
func (p *pump) admitsCall() bool {
	return p.slow.size == 0 || (p.calls == 0 && p.settled())
}

// sendAlone sends a call of one event after its note has committed.
func (p *pump) sendAlone(c *call) {
	it := c.items[0]
	crashes := crashesAlone(it.row.LastError)
	if crashes >= suspectAfter {
		p.returned(c)
		it.queue.sending--
		p.hold(it.queue, it, nil, Mark{
			Ref: it.row.Ref, Held: HeldBlocked, Attempts: it.row.Attempts,
			Error: fmt.Sprintf("suspect: alone in flight when a relay died, %d times", crashes),
		})
		p.log.Warn("key blocked: suspect", "topic", it.row.Topic, "key", p.safeKey(it.row.Key.Key), "event", it.row.EventID,
			"crashes", crashes, "hint", `this event was alone in flight at each of these crashes: look at it, then release the key or skip the event ("A blocked key" in docs/cli.md)`)
		return
	}
	it.alone = true
	note := Mark{Ref: it.row.Ref, Attempts: saturated(it.row.Attempts), Error: aloneNote + strconv.Itoa(crashes+1)}
	c.noting = true
	p.mark(nil, note, func() { p.sendNoted(c) })
}

// sendNoted sends a call whose note has committed, unless it may no longer be
// sent: the commit may have taken longer than the lease.
func (p *pump) sendNoted(c *call) {
	now := time.Now()
	it := c.items[0]
	c.noting = false
	if !p.stopping && c.term == p.term && p.mayPublish(now) && p.ownsRow(&it.row) {
		p.sent[c] = now
		p.send(c)
		return
	}
	p.returned(c)
	it.queue.sending--
	if c.term == p.term {
		p.mark(nil, Mark{Ref: it.row.Ref, Attempts: it.row.Attempts, Error: it.row.LastError}, nil)
	}
	p.putBack(it.queue, it, nil)
}

// unmarkAlone takes the note back after an outcome that counts nothing.
func (p *pump) unmarkAlone(it *item, err error) {
	if it.alone {
		p.mark(nil, Mark{Ref: it.row.Ref, Attempts: it.row.Attempts, Error: safeError(err)}, nil)
	}
}

const aloneNote = "sent alone after a crash, time "

// crashesAlone reads a row's note.
func crashesAlone(lastError string) int {
	n, ok := strings.CutPrefix(lastError, aloneNote)
	if !ok {
		return 0
	}
	crashes, _ := strconv.Atoi(n)
	return crashes
}
