package relay

import (
	"context"
	"time"
)

// # The doorbell
//
// A store that can ring (Waker) rings for inserts only while it is armed,
// because ringing costs the writers. A fetch that finds nothing arms it and the
// pump goes to sleep until the bell, the poll interval or the next due time.
// While asleep it extends the arming every extendEvery; a killed relay's arming
// runs out by itself a moment later.
//
// Under load it must not arm whenever it happens to find nothing, or every
// other commit would ring. So it arms at once only while fewer than quietRows
// came in the last second, and otherwise after quietTime without a row; until
// then it stays awake and looks every few milliseconds.
type bellState struct {
	bell      chan struct{}
	listening bool
	ringing   bool
	asleep    bool
	armedAt   time.Time
	lastRow   time.Time
	arrivals  [10]int // rows by tenth of a second
	tenth     int64
	wakeupErr error
}

const (
	armFor      = time.Second
	extendEvery = 500 * time.Millisecond
	quietRows   = 50
	quietTime   = 100 * time.Millisecond
	busyDelay   = 4 * time.Millisecond
)

// listen keeps a wake-up connection while ctx is not done. The returned channel
// is closed when it has ended.
func (p *pump) listen(ctx context.Context) <-chan struct{} {
	stopped := make(chan struct{})
	p.bell = make(chan struct{}, 1)
	waker, ok := p.store.(Waker)
	if !ok || p.once {
		close(stopped)
		return stopped
	}
	ring := func() {
		select {
		case p.bell <- struct{}{}:
		default: // a ring is waiting already
		}
	}
	go func() {
		defer close(stopped)
		b := backoff{base: 500 * time.Millisecond, cap: 30 * time.Second}
		for {
			began := time.Now()
			p.tell(ctx, func() { p.listening = true })
			err := waker.Listen(ctx, ring)
			p.tell(ctx, func() { p.noteWakeup(err) })
			if time.Since(began) > time.Minute {
				b.reset()
			}
			if ctx.Err() != nil || !sleep(ctx, b.next()) {
				return
			}
		}
	}()
	return stopped
}

// tell runs do in the loop, unless the loop has ended.
func (p *pump) tell(ctx context.Context, do func()) {
	select {
	case p.commands <- do:
	case <-ctx.Done():
	}
}

func (p *pump) noteWakeup(err error) {
	p.listening = false
	if p.wakeupErr == nil && err != nil {
		p.log.Warn("no wake-up: polling", "error", err, hintAttr(HintOf(err)))
	}
	p.wakeupErr = err
	p.nextFetch = time.Now() // what it would have rung for
}

func (p *pump) rung() {
	p.wakeups.Add(1)
	p.ringing = true
}

// armNow is how long a fetch that finds nothing should arm the bell.
func (p *pump) armNow(now time.Time) time.Duration {
	if !p.listening || p.stayAwake(now) {
		return 0
	}
	return armFor
}

// stayAwake reports whether rows come too fast for sleeping between them.
func (p *pump) stayAwake(now time.Time) bool {
	if !p.listening || now.Sub(p.lastRow) >= quietTime {
		return false
	}
	return p.lastSecond(now) >= quietRows
}

// lastSecond is the number of rows that came in the last second.
func (p *pump) lastSecond(now time.Time) int {
	p.countArrivals(0, now)
	sum := 0
	for _, n := range p.arrivals {
		sum += n
	}
	return sum
}

func (p *pump) countArrivals(rows int, now time.Time) {
	tenth := now.UnixMilli() / 100
	for gone := min(tenth-p.tenth, int64(len(p.arrivals))); gone > 0; gone-- {
		p.arrivals[(tenth-gone+1)%int64(len(p.arrivals))] = 0
	}
	p.tenth = tenth
	p.arrivals[tenth%int64(len(p.arrivals))] += rows
	if rows > 0 {
		p.lastRow = now
	}
}

// extendArming keeps the bell armed while the pump sleeps for longer than an
// arming lasts.
func (p *pump) extendArming(now time.Time) {
	if !p.asleep || p.stopping || p.view != nil {
		return
	}
	due := p.armedAt.Add(extendEvery)
	if now.Before(due) {
		p.wakeBy(due)
		return
	}
	p.armedAt = now
	waker := p.store.(Waker)
	p.spawn(func() func() {
		ctx, cancel := p.withTimeout(armFor)
		defer cancel()
		err := waker.Arm(ctx)
		return func() {
			if err != nil { // not armed: look instead
				p.asleep = false
				p.delay = firstDelay
				p.nextFetch = time.Now().Add(firstDelay)
			}
		}
	})
}
