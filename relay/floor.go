package relay

import "time"

// floors shorten the scan over dead rows. While a snapshot is held open the
// database cannot remove settled rows from its indexes, and a fetch walks over
// all of them. A floor is the lowest id of a topic that is worth looking at.
//
// It is a hint only: an id is drawn before its transaction commits, so a row
// may appear below any floor. Therefore floors are used only after a fetch was
// seen to be slow, they trail by at least a second, and every sweepEvery a
// fetch without them runs beside the others.
type floors struct {
	inUse     map[string]RowID
	candidate map[string]RowID // in use once it is a second old
	since     time.Time
	high      RowID
	slowUntil time.Time
	lastSweep time.Time
}

const (
	sweepEvery = 5 * time.Second
	floorAge   = time.Second
	slowFetch  = 20 * time.Millisecond
)

// apply sets a query's floors where they are in use.
func (f *floors) apply(p *pump, q *FetchQuery, now time.Time) {
	if !now.Before(f.slowUntil) {
		f.inUse, f.candidate = nil, nil
		return
	}
	if now.Sub(f.since) >= floorAge {
		f.inUse, f.candidate = f.candidate, p.lowestIDs(f.high)
		f.since = now
	}
	if f.inUse != nil {
		q.Floors, q.High = f.inUse, f.high
	}
}

// sweepDue reports whether a fetch without floors is to run beside this one.
func (f *floors) sweepDue(now time.Time) bool {
	if f.inUse == nil || now.Sub(f.lastSweep) < sweepEvery {
		return false
	}
	f.lastSweep = now
	return true
}

// learn notes the highest id seen, and whether scanning all was slow for what
// it brought.
func (f *floors) learn(v *view, r Fetched, now time.Time) {
	for i := range r.Rows {
		if id := r.Rows[i].ID; f.high.compare(id) < 0 {
			f.high = id
		}
	}
	took := now.Sub(v.sent)
	if v.query.Floors == nil && took > slowFetch && took > time.Duration(len(r.Rows)+len(r.Closed))*50*time.Microsecond {
		f.slowUntil = now.Add(2 * sweepEvery)
		if f.lastSweep.IsZero() {
			f.lastSweep = now
		}
	}
}

// lowestIDs returns for each topic the lowest id in memory, or the id above the
// highest one seen.
func (p *pump) lowestIDs(high RowID) map[string]RowID {
	lowest := make(map[string]RowID, len(p.topics))
	for name := range p.topics {
		lowest[name] = high
	}
	for id, it := range p.items {
		if low, ok := lowest[it.row.Topic]; !ok || id.compare(low) < 0 {
			lowest[it.row.Topic] = id
		}
	}
	return lowest
}
