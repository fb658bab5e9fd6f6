package relay

import (
	"context"
	"log/slog"
	"time"
)

// A pump moves the events of one database.
//
// # One goroutine decides
//
// All state of a pump belongs to the goroutine of its loop: what is in memory,
// which key is closed, which destination is down, who owns which lane. Nothing
// is locked. Whatever takes time (a fetch, a call of a broker, a settle, a
// renewal) runs in a goroutine of its own, which returns a closure; the loop
// runs that closure and then step, which starts everything that may start now:
//
//	  ┌────────────── step ──────────────┐
//	  ▼        ▼        ▼        ▼        ▼
//	lease    fetch   dispatch  settle   chores
//	  │        │        │        │        │     goroutines
//	  └────────┴───┬────┴────────┴────────┘
//	               ▼
//	      closure on p.done → loop
//
// # The life of a row in memory
//
//	fetched ──► queued ──► in a call ──► outcome ──► settled
//	               │            │
//	               └─ forgotten ┘   (destination down, lane given up, stop)
//
// A row is in p.items from the moment it is fetched until its outcome has
// committed or it is forgotten; while it is there no fetch asks for it.
// Forgetting writes nothing: the table still has the row.
type pump struct {
	r       *Relay
	db      Database
	store   Store
	log     *slog.Logger
	server  Server
	once    bool
	budget  int64 // payload bytes that may be in memory
	started time.Time

	done     chan func()
	running  int
	commands chan func()
	wakeAt   time.Time // the earliest time at which step has something to do

	memory
	fetcher
	dispatcher
	settler
	keeper
	member
	counters
	pulse

	stopping   bool      // no new work
	stopBy     time.Time // calls are cut then
	cutCalls   context.CancelFunc
	callsCtx   context.Context //nolint:containedctx // the parent of the calls' contexts, cut at the end of a drain
	workCtx    context.Context //nolint:containedctx // the same for statements, cut when nobody needs them any more
	cutWork    context.CancelFunc
	abandoned  chan struct{} // closed when results are no longer waited for
	fatal      error
	leftReason []Leftover
}

func newPump(r *Relay, db Database) *pump {
	return &pump{
		r: r, db: db, store: db.Store,
		log:      r.cfg.Logger.With("database", db.Name),
		budget:   max(1<<20, r.cfg.Memory/int64(len(r.cfg.Databases))),
		commands: make(chan func()),
	}
}

// reset forgets everything in memory. It is called at the start, and whenever
// what is in memory is about another server or another lease.
func (p *pump) reset() {
	for c := range p.sent {
		if c.noting { // its note is forgotten, so it will not be sent
			p.returned(c)
		}
	}
	p.memory.reset()
	p.fetcher.reset()
	p.dispatcher.reset()
	p.settler.reset()
	p.keeper.reset()
}

func (p *pump) run(ctx context.Context, once bool) (DrainReport, error) {
	p.once, p.stopping, p.fatal, p.leftReason = once, false, nil, nil
	p.started, p.stopBy = time.Now(), time.Time{}
	p.done, p.abandoned, p.running = make(chan func(), 64), make(chan struct{}), 0
	p.dispatcher = dispatcher{}
	p.initMember()
	p.reset()
	if err := p.open(ctx); err != nil || ctx.Err() != nil {
		return DrainReport{}, err
	}
	if p.db.Claim == ClaimCompeting {
		return p.compete(ctx)
	}
	p.callsCtx, p.cutCalls = context.WithCancel(context.WithoutCancel(ctx))
	defer p.cutCalls()
	p.workCtx, p.cutWork = context.WithCancel(context.WithoutCancel(ctx))
	defer p.cutWork()
	listenCtx, stopListening := context.WithCancel(ctx)
	defer stopListening()
	stopped := p.listen(listenCtx)
	before := p.snapshotTotals()
	p.loop(ctx)
	p.end()
	stopListening()
	<-stopped
	p.leave(ctx)
	p.heldLeft(ctx)
	after := p.snapshotTotals()
	return DrainReport{
		Delivered: after.delivered - before.delivered,
		Dead:      after.dead - before.dead,
		Left:      p.leftReason,
	}, p.fatal
}

// open opens the store, for as long as it takes. Only a misconfigured database
// is an error.
func (p *pump) open(ctx context.Context) error {
	b := backoff{base: 100 * time.Millisecond, cap: 5 * time.Second}
	for {
		openCtx, cancel := context.WithTimeout(ctx, openTimeout)
		server, err := p.store.Open(openCtx)
		cancel()
		switch {
		case err == nil:
			p.server = server
			p.log.Info("database opened", "server", server.Describe)
			for _, f := range server.Findings {
				p.log.Warn("database finding", "problem", f.Problem, hintAttr(f.Hint))
			}
			return nil
		case ctx.Err() != nil:
			return nil
		case IsMisconfigured(err):
			return err
		case p.once:
			return err
		}
		p.noteDatabase(err)
		if !sleep(ctx, b.next()) {
			return nil
		}
	}
}

const openTimeout = 15 * time.Second

// sleep waits for d and reports whether ctx let it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *pump) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	p.looping.Store(true)
	defer p.looping.Store(false)
	for {
		p.step()
		if p.finished() {
			break
		}
		timer.Reset(max(0, time.Until(p.wakeAt)))
		select {
		case then := <-p.done:
			p.finish(then)
			p.finishMore()
		case <-p.bell:
			p.rung()
		case command := <-p.commands:
			command()
		case <-timer.C:
		case <-stop:
			stop = nil
			p.stop()
		}
	}
}

// spawn runs work beside the loop; the loop runs what it returns.
func (p *pump) spawn(work func() (then func())) {
	p.running++
	done, abandoned := p.done, p.abandoned
	go func() {
		then := work()
		select {
		case done <- then:
		case <-abandoned:
		}
	}()
}

func (p *pump) finish(then func()) {
	p.running--
	then()
}

// finishMore takes what else has returned meanwhile, so that one step follows
// many results.
func (p *pump) finishMore() {
	for range cap(p.done) {
		select {
		case then := <-p.done:
			p.finish(then)
		default:
			return
		}
	}
}

// step starts everything that may start now, in the order in which one makes
// room for the next, and sets the time at which it has to be called again at
// the latest.
func (p *pump) step() {
	now := time.Now()
	p.wakeAt = now.Add(time.Hour)
	p.stepLease(now)
	p.stepKeys(now)
	p.stepDispatch(now)
	p.stepSettle(now)
	p.stepFetch(now)
	p.stepChores(now)
	if p.stopping {
		p.wakeBy(p.stopBy)
	}
}

// wakeBy makes the loop run step at t at the latest.
func (p *pump) wakeBy(t time.Time) {
	if t.Before(p.wakeAt) {
		p.wakeAt = t
	}
}
