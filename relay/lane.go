package relay

import (
	"crypto/sha256"
	"math/bits"

	"github.com/postrider/postrider/outbox"
)

// LaneOf returns the lane of an event: the first byte of SHA-256 of the key's
// UTF-8 bytes, or of the event id's 16 bytes where the key is empty. Frozen for
// ever: relays of different versions and the stores' SQL agree on it.
func LaneOf(key string, id outbox.ID) uint8 {
	if key == "" {
		return sha256.Sum256(id[:])[0]
	}
	return sha256.Sum256([]byte(key))[0]
}

// Lanes is a set of lanes. The zero value is empty.
type Lanes [4]uint64

// AllLanes is the set of all 256 lanes.
var AllLanes = Lanes{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)}

// Has reports whether lane is in the set.
func (l Lanes) Has(lane uint8) bool { return l[lane>>6]&(1<<(lane&63)) != 0 }

// Add puts lane into the set.
func (l *Lanes) Add(lane uint8) { l[lane>>6] |= 1 << (lane & 63) }

// Remove takes lane out of the set.
func (l *Lanes) Remove(lane uint8) { l[lane>>6] &^= 1 << (lane & 63) }

// Len returns the number of lanes in the set.
func (l Lanes) Len() int {
	n := 0
	for _, w := range l {
		n += bits.OnesCount64(w)
	}
	return n
}

// Union returns the lanes in either set, Minus those of l that are not in m.
func (l Lanes) Union(m Lanes) Lanes {
	for i := range l {
		l[i] |= m[i]
	}
	return l
}

// Minus returns the lanes of l that are not in m.
func (l Lanes) Minus(m Lanes) Lanes {
	for i := range l {
		l[i] &^= m[i]
	}
	return l
}

// List returns the lanes in ascending order.
func (l Lanes) List() []uint8 {
	out := make([]uint8, 0, l.Len())
	for lane := range 256 {
		if l.Has(uint8(lane)) {
			out = append(out, uint8(lane))
		}
	}
	return out
}
