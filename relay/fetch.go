package relay

import (
	"math/rand/v2"
	"slices"
	"time"
)

// # Fetching
//
// A fetch asks for the lowest pending rows that are not in memory here. It
// never asks for "id above the last one": ids are drawn at insert and become
// visible at commit, so a lower id may appear later and must not be overtaken by
// the next event of its key. Only a floor that the store has proven is asked for
// (floor.go).
//
// Since fetches, calls and settles overlap, a reply tells of a moment that has
// passed. Three things could go wrong, and each has its answer in view, which
// collects what changed since the query was sent:
//
//   - a row was in flight when the query was sent and has been settled since:
//     the reply may bring it again. It is in view.settled and is dropped.
//   - a key was closed, opened or forgotten since: the reply may bring its later
//     rows as if they were next. It is in view.touched; all its rows are
//     dropped, and the next fetch brings them as they are then.
//   - the rows are of a lane that was given up or lost since: they are in
//     view.lost and are dropped, also when the lane came back meanwhile, since
//     another relay may have sent them in between.
//
// # When
//
// At once after a full fetch, after a ring of the doorbell, and when lanes were
// gained. Otherwise after a delay that starts at firstDelay behind a fetch that
// brought something and doubles with each that did not, up to poll_interval.
// Where the store can ring, the pump goes to sleep instead (wake.go).
type fetcher struct {
	view       *view // the fetch on its way
	again      bool  // fetch as soon as there is room
	nextFetch  time.Time
	dueAt      time.Time // when the next retry or scheduled row falls due; zero if none waits
	wholeFetch time.Time // when the last fetch that was no peek was sent
	delay      time.Duration
	emptyFetch bool // the last fetch was sent after the last change and found nothing
	change     int  // counts what may bring new rows into sight
	fetchErrs  backoff
	floor      floors
	clockAhead time.Duration // of the database's clock before ours, as of the last fetch
	bellState
	pausedByOperator map[[2]string]struct{}
}

// view is what changed since a fetch was sent.
type view struct {
	settled map[RowID]struct{}
	touched map[Key]struct{}
	lost    Lanes
	change  int
	query   FetchQuery
	sent    time.Time
}

const firstDelay = 500 * time.Microsecond

func (f *fetcher) reset() {
	bell := f.bellState
	bell.asleep, bell.ringing = false, false
	*f = fetcher{again: true, bellState: bell}
	f.fetchErrs = backoff{base: 50 * time.Millisecond, cap: 5 * time.Second}
}

// onView calls do for the fetch on its way.
func (f *fetcher) onView(do func(*view)) {
	if f.view != nil {
		do(f.view)
	}
}

// touch drops the rows of a key from the fetches on their way.
func (p *pump) touch(k Key) {
	p.change++
	if k.Key == "" {
		return // rows without a key do not wait for each other
	}
	p.onView(func(v *view) { v.touched[k] = struct{}{} })
}

// noteSettled drops a row from the fetches on their way.
func (p *pump) noteSettled(id RowID) {
	p.onView(func(v *view) { v.settled[id] = struct{}{} })
}

func (p *pump) stepFetch(now time.Time) {
	if p.stopping || p.view != nil || !p.serves() || !p.mayPublish(now) {
		return
	}
	rows, bytes := p.room()
	if rows == 0 && p.park(now) {
		rows, bytes = p.room()
	}
	if rows == 0 {
		return // a settle makes room
	}
	if !p.again && !p.ringing && now.Before(p.nextFetch) {
		p.wakeBy(p.nextFetch)
		return
	}
	q := FetchQuery{
		Lanes:   p.lanesToFetch(),
		Skip:    p.inFlight(),
		Without: p.without(),
		Rows:    rows,
		Bytes:   bytes,
	}
	q.Arm, q.Disarm = p.armNow(now), p.ringing
	p.peek(&q, now)
	p.again, p.ringing, p.asleep = false, false, false
	p.floor.apply(&q, now)
	p.view = p.ask(q, now, func() { p.view = nil })
}

// peek makes a query ask for rows alone. A whole fetch also tells what waits or is
// scheduled, and costs the database about twice as much; while rows
// come every moment, and for the first look after a ring, rows are all that is
// wanted. Whole fetches go on between them every wholeEvery.
func (p *pump) peek(q *FetchQuery, now time.Time) {
	often := q.Arm == 0 && now.Sub(p.wholeFetch) < wholeEvery && (p.dueAt.IsZero() || now.Before(p.dueAt))
	if p.once || p.again || p.floor.inUse != nil || !p.ringing && !often {
		p.wholeFetch = now
		return
	}
	q.Peek, q.Arm, q.Rows = true, 0, min(q.Rows, peekRows)
}

const (
	wholeEvery = 100 * time.Millisecond
	peekRows   = 256
)

// room is how much may be fetched: a batch, as long as it fits. Waiting until
// a good part of a batch fits keeps the queries few and large under load.
func (p *pump) room() (rows int, bytes int64) {
	rows = min(p.db.Batch, 4*p.db.Batch-len(p.items), 2*p.db.Batch-p.queued)
	bytes = p.budget - p.bytes
	if len(p.items) > 0 && (rows < p.db.Batch/2 || bytes < p.budget/4) {
		return 0, 0
	}
	return max(rows, 1), max(bytes, 1)
}

// inFlight lists the rows in memory, in ascending order.
func (p *pump) inFlight() []RowID {
	ids := make([]RowID, 0, len(p.items))
	for id := range p.items {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, RowID.compare)
	return ids
}

const fetchTimeout = 30 * time.Second

// ask starts a fetch.
func (p *pump) ask(q FetchQuery, now time.Time, back func()) *view {
	v := &view{settled: map[RowID]struct{}{}, touched: map[Key]struct{}{}, change: p.change, query: q, sent: now}
	history := p.history
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(fetchTimeout)
		defer cancel()
		f, err := p.store.Fetch(ctx, q)
		return func() {
			if p.history != history {
				return // memory was reset meanwhile
			}
			back()
			p.fetched(v, f, err)
		}
	})
	return v
}

func (p *pump) fetched(v *view, f Fetched, err error) {
	now := time.Now()
	p.observeFetch(now.Sub(v.sent), len(f.Rows))
	p.noteDatabase(err)
	if err != nil {
		p.emptyFetch = false
		p.nextFetch = now.Add(p.fetchErrs.next())
		if p.once {
			p.fail(err)
		}
		return
	}
	p.fetchErrs.reset()
	if f.Server != "" && f.Server != p.server.Identity {
		p.anotherServer(f.Server)
		return
	}
	p.setPaused(f.Paused)
	p.floor.learn(v, f, now)
	if !f.Now.IsZero() {
		p.clockAhead = f.Now.Sub(now)
	}
	taken, dropped := p.take(v, f)
	for _, k := range f.Due {
		p.wantRead(k)
	}
	p.promoteNow = p.promoteNow || f.Scheduled
	p.schedule(v, f, taken, dropped, now)
}

// take brings the rows of a reply into memory. It returns how many, and whether
// rows were dropped that a later fetch brings.
func (p *pump) take(v *view, f Fetched) (taken int, dropped bool) {
	slab := make([]item, len(f.Rows)+len(f.Closed))
	for i := range f.Rows {
		row := &f.Rows[i]
		switch verdict := p.admit(v, row); verdict {
		case admitted:
			t := p.topicOf(row.Topic)
			switch {
			case t.route == nil:
				t.unroutable = true
			case p.topicPaused(t): // since the query was sent; a later one leaves it out
			default:
				it := &slab[i]
				it.row = *row
				p.enqueue(it, t, false)
				taken++
			}
		case later:
			dropped = true
		}
	}
	slab = slab[len(f.Rows):]
	for i := range f.Closed {
		row := &f.Closed[i]
		if p.topicPaused(p.topicOf(row.Topic)) {
			continue
		}
		switch p.admitAny(v, row) {
		case admitted:
			slab[i].row = *row
			p.markBehind(&slab[i])
			taken++
		case later:
			dropped = true
		}
	}
	p.closeOverfull()
	return taken, dropped
}

type verdict int

const (
	admitted verdict = iota
	known            // in memory, or settled since the query was sent
	later            // not to be taken now
)

// admit decides about a row that may be sent.
func (p *pump) admit(v *view, row *Row) verdict {
	if len(p.closed) > 0 && row.Key.Key != "" && p.closed[row.Key] != nil {
		return later
	}
	return p.admitAny(v, row)
}

// admitAny decides about a row that may be sent or is to be marked as held
// behind others of its key. The latter must not wait for what is being done
// about the key here: that may itself wait for the mark.
func (p *pump) admitAny(v *view, row *Row) verdict {
	if _, ok := p.items[row.ID]; ok {
		return known
	}
	if _, ok := v.settled[row.ID]; ok {
		return known
	}
	if len(v.touched) > 0 {
		if _, ok := v.touched[row.Key]; ok {
			return later
		}
	}
	if v.lost != (Lanes{}) && v.lost.Has(LaneOf(row.Key.Key, row.EventID)) {
		return known // if the lane came back, a later fetch brings them
	}
	return admitted
}

// schedule decides when the next fetch is sent.
func (p *pump) schedule(v *view, f Fetched, taken int, dropped bool, now time.Time) {
	p.emptyFetch = taken == 0 && !dropped && !f.More && !f.Scheduled && len(f.Due) == 0 && v.change == p.change && !v.query.Peek
	p.countArrivals(taken, now)
	switch {
	case f.More && taken > 0:
		p.again = true
	case taken > 0:
		p.delay = p.delayAt(p.lastSecond(now))
	case dropped:
		// What held them back is on its way to commit: soon, but not in a spin.
		p.delay = max(min(p.delay, 5*time.Millisecond), 2*firstDelay)
	default:
		p.delay = min(max(2*p.delay, firstDelay), p.db.PollInterval)
	}
	delay := p.delay
	if f.Armed && taken == 0 && !dropped {
		p.asleep = true
		p.armedAt = now
		delay = p.db.PollInterval
	} else if taken == 0 && p.stayAwake(now) {
		delay = min(delay, busyDelay)
	}
	if !v.query.Peek { // a peek does not tell
		p.dueAt = time.Time{}
		if f.Next > 0 {
			p.dueAt = now.Add(f.Next)
		}
	}
	if !p.dueAt.IsZero() {
		delay = max(min(delay, p.dueAt.Sub(now)), 0)
	}
	p.nextFetch = now.Add(jitter(delay))
}

// delayAt is the wait behind a fetch that brought something: the faster rows
// come, the more of them a fetch should bring, or the fetches take the processor
// from the writers. Up to 500 rows/s it is firstDelay, from 4,000 on busyDelay.
func (p *pump) delayAt(rowsPerSecond int) time.Duration {
	return min(max(time.Duration(rowsPerSecond)*time.Microsecond, firstDelay), busyDelay, p.db.PollInterval)
}

// jitter shortens d by up to a fifth, so that relays do not march in step and
// no wait is longer than it was configured.
func jitter(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d
	}
	return d - rand.N(d/5)
}

func (a RowID) compare(b RowID) int {
	switch {
	case a.Hi < b.Hi, a.Hi == b.Hi && a.Lo < b.Lo:
		return -1
	case a == b:
		return 0
	}
	return 1
}
