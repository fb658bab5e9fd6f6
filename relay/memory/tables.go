package memory

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

// tables is the content of a database: everything that a backup would hold.
type tables struct {
	sequence  int64     // the last id drawn; never goes back
	rows      []*record // committed and pending, by id
	delivered []Delivered
	dead      []Dead
	controls  []relay.Control
	members   map[string]*member
	lanes     [256]lane
	epochs    int64 // the last epoch given out
}

// record is a row of the outbox.
type record struct {
	relay.Row
	held    relay.Held
	retryAt time.Time
	claimed bool // by a Compete that is under way
}

// Delivered is a row of the history.
type Delivered struct {
	relay.Row
	At time.Time
}

// Dead is a dead letter.
type Dead struct {
	relay.Row
	Class, Cause string
	At           time.Time
}

// Held is a held row.
type Held struct {
	relay.Row
	State   relay.Held
	RetryAt time.Time // zero unless State is relay.HeldRetry
}

func (t *tables) draw() relay.RowID {
	t.sequence++
	return relay.IntID(t.sequence)
}

// eventID makes an event id that is the same in each run. It is not part of the
// tables: a restored database draws ids again, but never event ids.
func (d *Database) eventID() (id outbox.ID) {
	d.events++
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(d.cfg.Name), d.events))
	copy(id[:], sum[:])
	return id
}

// scheduled: not yet in its place in the order, by the writer's wish. A row
// that is due stays scheduled until it is promoted.
func (r *record) scheduled() bool { return r.held == "" && r.Available.After(r.Queued) }

// ready: in its place and not held.
func (r *record) ready() bool { return r.held == "" && !r.scheduled() }

// waits: held until a later moment, or until an operator acts.
func (r *record) waits(now time.Time) bool {
	return r.held == relay.HeldBlocked || r.retryAt.After(now)
}

func (r *record) lane() uint8 { return relay.LaneOf(r.Key.Key, r.EventID) }

func (r *record) copy() relay.Row {
	row := r.Row
	row.Payload = slices.Clone(row.Payload)
	row.Headers = maps.Clone(row.Headers)
	return row
}

func (r *record) size() int64 {
	n := len(r.Topic) + len(r.Key.Key) + len(r.Type) + len(r.ContentType) + len(r.Payload)
	for k, v := range r.Headers {
		n += len(k) + len(v)
	}
	return int64(n)
}

func byID(r *record, id relay.RowID) int { return cmp.Compare(r.ID.Int(), id.Int()) }

func (t *tables) add(r *record) {
	i, _ := slices.BinarySearchFunc(t.rows, r.ID, byID)
	t.rows = slices.Insert(t.rows, i, r)
}

func (t *tables) remove(r *record) {
	if i, found := slices.BinarySearchFunc(t.rows, r.ID, byID); found {
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

// find returns the row that ref names in full, or nil.
func (t *tables) find(ref relay.Ref) *record {
	i, found := slices.BinarySearchFunc(t.rows, ref.ID, byID)
	if !found || t.rows[i].EventID != ref.EventID || t.rows[i].Generation != ref.Generation {
		return nil
	}
	return t.rows[i]
}

func compareKeys(a, b relay.Key) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
}
