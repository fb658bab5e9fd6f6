package relay

import (
	"context"
	"time"
)

// # Floors
//
// While an old snapshot is held open the database cannot remove settled rows
// from its indexes, and a fetch walks over all of them. A floor is an id of a
// topic below which no pending row lies, so that the fetch may begin there.
//
// A floor must be proven. An id is drawn before its transaction commits, so "I
// have seen 10, hence I need not look below 10" is wrong: a transaction that
// drew 5 commits late, and the next event of its key, written after that, would
// be fetched first and overtake it. Only the store can tell that every
// transaction which could have drawn a lower id has ended; where it cannot,
// there are no floors and fetches are slow but right.
//
// Floors are asked for only while fetches without them are slow.
type floors struct {
	inUse   map[string]RowID
	high    RowID // everything up to it is decided
	seen    RowID // the highest id fetched
	slow    bool
	nextAsk time.Time
	expire  time.Time
}

const (
	// slowFetch and slowRow are what a fetch may take before it counts as slow.
	slowFetch = 20 * time.Millisecond
	slowRow   = 50 * time.Microsecond
	// floorEvery is how often floors move up.
	floorEvery = 2 * time.Second
	// floorLife is how long floors are used before a fetch without them tells
	// whether they are still needed.
	floorLife = 30 * time.Second
)

// apply sets a query's floors where there are some.
func (f *floors) apply(q *FetchQuery, now time.Time) {
	if f.inUse != nil && now.After(f.expire) {
		f.inUse, f.slow = nil, false
	}
	if f.inUse != nil {
		q.Floors, q.High = f.inUse, f.high
	}
}

// learn notes the highest id and whether a fetch without floors was slow for
// what it brought.
func (f *floors) learn(v *view, r Fetched, now time.Time) {
	for i := range r.Rows {
		if id := r.Rows[i].ID; f.seen.compare(id) < 0 {
			f.seen = id
		}
	}
	took := now.Sub(v.sent)
	if v.query.Floors == nil && took > slowFetch && took > time.Duration(len(r.Rows)+len(r.Closed))*slowRow {
		f.slow = true
	}
}

// askFloors asks the store for floors, if they are needed and it is time.
func (p *pump) askFloors(now time.Time) bool {
	f := &p.floor
	if !f.slow || now.Before(f.nextAsk) {
		return false
	}
	f.nextAsk = now.Add(floorEvery)
	store, ok := p.store.(Floorer)
	if !ok || f.seen == (RowID{}) {
		return false
	}
	seen := f.seen
	p.chore(func(ctx context.Context) (func(), error) {
		lowest, upTo, err := store.Floors(ctx, seen)
		return func() {
			if upTo == (RowID{}) {
				return
			}
			if f.inUse == nil {
				f.expire = time.Now().Add(floorLife)
			}
			f.inUse, f.high = lowest, upTo
		}, err
	})
	return true
}
