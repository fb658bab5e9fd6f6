package outbox

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"
)

// ID identifies an event for ever: a UUID, version 7 where NewID makes it. It
// never changes on a retry or a replay, so consumers recognise repeats by it.
type ID [16]byte

// newest is the time part of the last ID that NewID gave out. It is the one
// mutable variable of the package: ids are monotonic within the process only if
// every caller in the process shares it.
var newest atomic.Uint64

// NewID returns a UUID version 7 (RFC 9562): 48 bits of milliseconds, 12 bits
// of the millisecond's fraction, 62 random bits. Within a process every ID is
// greater than all that were returned before, also when the clock stands still
// or is set back. It is safe for concurrent use.
//
// The order of ids is a convenience for people and indexes. The order of events
// is the order of the rows, never that of the ids.
func NewID() ID { return newID(time.Now()) }

func newID(now time.Time) ID {
	stamp := nextStamp(now)
	var id ID
	// The top 48 bits are the milliseconds, the low 12 the fraction.
	binary.BigEndian.PutUint64(id[:8], stamp>>12<<16|stamp&0xfff)
	if _, err := rand.Read(id[8:]); err != nil {
		// crypto/rand documents that it never returns an error; an id that
		// might repeat must not be handed out.
		panic(fmt.Sprintf("random bytes for an event id: %v", err))
	}
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80 // RFC 9562 variant
	return id
}

// nextStamp returns milliseconds<<12 | fraction, greater than any before.
func nextStamp(now time.Time) uint64 {
	ms := max(now.UnixMilli(), 0)
	fraction := uint64(now.Nanosecond()%int(time.Millisecond)) << 12 / uint64(time.Millisecond)
	stamp := uint64(ms)<<12 | fraction
	for {
		last := newest.Load()
		next := max(stamp, last+1)
		if newest.CompareAndSwap(last, next) {
			return next
		}
	}
}

// ParseID reads the 36 characters of a UUID of any version, in either case:
// xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.
func ParseID(s string) (ID, error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return ID{}, errMalformedID
	}
	var id ID
	compact := s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:]
	if _, err := hex.Decode(id[:], []byte(compact)); err != nil {
		return ID{}, errMalformedID
	}
	return id, nil
}

// String returns the 36 lower-case characters that ParseID reads.
func (id ID) String() string {
	var b [36]byte
	hex.Encode(b[:8], id[:4])
	hex.Encode(b[9:13], id[4:6])
	hex.Encode(b[14:18], id[6:8])
	hex.Encode(b[19:23], id[8:10])
	hex.Encode(b[24:], id[10:])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// IsZero reports whether id is the zero ID, which stands for "not set".
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText returns String's bytes, so that an ID is a string in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what ParseID reads.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
