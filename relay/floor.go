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
	top       map[string]RowID // by topic: all rows up to it were seen and are in memory, held or settled
	losses    uint64           // raised when a row is forgotten or lanes are gained: a reply to an older query does not know of it
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
		f.inUse, f.candidate = f.candidate, p.lowestIDs()
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
	if f.top == nil {
		f.top = map[string]RowID{}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if f.high.compare(row.ID) < 0 {
			f.high = row.ID
		}
		if v.losses == f.losses && f.top[row.Topic].compare(row.ID) < 0 {
			f.top[row.Topic] = row.ID
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

// forget notes that a row which was seen is only in the table now. No floor may
// come to lie above it: later rows of its key would be fetched before it.
func (f *floors) forget(row *Row) {
	f.losses++
	if f.top[row.Topic].compare(row.ID) > 0 {
		f.top[row.Topic] = row.ID
	}
}

// clear forgets all floors: of lanes that were gained no row was seen.
func (f *floors) clear() {
	f.losses++
	f.inUse, f.candidate, f.top = nil, nil, nil
}

// lowestIDs returns for each topic the lowest id that may be pending.
func (p *pump) lowestIDs() map[string]RowID {
	lowest := make(map[string]RowID, len(p.topics))
	for name := range p.topics {
		lowest[name] = p.floor.top[name]
	}
	for id, it := range p.items {
		if id.compare(lowest[it.row.Topic]) < 0 {
			lowest[it.row.Topic] = id
		}
	}
	return lowest
}
