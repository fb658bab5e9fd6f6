package modeltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

// fate is what the broker says to an event: the first times answers, then it is
// accepted; a final one is refused for ever.
type fate struct {
	kind  string // "", rejected, permanent, unknown, unavailable
	times int
	final bool
}

// step is one thing that happens, after a wait.
type step struct {
	wait     time.Duration
	op       string
	slot     int // of a transaction or of a relay
	topic    string
	key      string
	count    int // of events
	fate     fate
	schedule time.Duration
	lasts    time.Duration
	seed     uint64
}

// history is a whole run, drawn before it begins.
type history struct {
	relays      int
	leases      bool
	policy      string
	maxAttempts int
	batch       int
	perCall     time.Duration
	perEvent    time.Duration
	perTopic    bool // a destination for each topic
	mixes       bool
	steps       []step
}

// world runs a history: writers, a database, a broker, and relays that come, go,
// stall and die.
type world struct {
	h      history
	db     *memory.Database
	server *memory.Server
	model  model

	mu      sync.Mutex
	answers map[string]int       // answers given, by payload
	fates   map[string]fate      // by payload
	down    map[string]time.Time // topics that are unreachable until then

	txs    map[int]*openTx
	n      int
	relays []*process
	log    lines
	moment time.Time // of the last call
	calls  int       // made at that moment
	spins  string
}

// lines keeps what the relays log, for a failure's report.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
	return len(line), nil
}

func (l *lines) last(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all[max(0, len(l.all)-n):], "")
}

type openTx struct {
	*memory.Tx
	number int
	events []*written
}

// process is one relay with its own clients of the database and the broker.
type process struct {
	in     *fault.Injector
	cancel context.CancelFunc
	done   chan error
	gone   bool // was told to stop, or crashed
}

// run plays the history, heals everything, waits until it is quiet and checks.
func (h history) run(ctx context.Context) []string {
	w := &world{
		h: h, db: memory.New(memory.Config{Name: "model"}).Database,
		answers: map[string]int{}, fates: map[string]fate{}, down: map[string]time.Time{},
		txs: map[int]*openTx{},
	}
	w.model = model{policy: h.policy, refusal: map[string]int{}}
	cfg := memory.ServerConfig{Verdict: w.verdict, PerCall: h.perCall, PerEvent: h.perEvent, Mixes: h.mixes}
	if h.perTopic {
		cfg.Destination = func(e relay.Event) string { return e.Topic }
	}
	w.server = memory.NewBroker(cfg).Server
	for range h.relays {
		w.start(ctx)
	}
	for _, s := range h.steps {
		// Never two steps at one moment, so that times tell what came first.
		time.Sleep(s.wait + time.Microsecond)
		w.play(ctx, s)
	}
	return w.settleDown(ctx)
}

// settleDown heals everything and waits until nothing is due.
func (w *world) settleDown(ctx context.Context) (breaches []string) {
	for _, tx := range w.txs {
		w.commit(tx)
	}
	w.mu.Lock()
	clear(w.down)
	w.mu.Unlock()
	alive := 0
	for _, p := range w.relays {
		p.in.Use(w.watch(nil))
		p.in.Release()
		p.in.Resume()
		if !p.gone {
			alive++
		}
	}
	if alive == 0 {
		w.start(ctx)
	}
	// Quiet for longer than the longest backoff, so that no late outcome is on
	// its way: a relay without a lease may change what another one wrote.
	for i, calm := 0, 0; calm < 90; i++ {
		if calm++; !w.quiet() {
			calm = 0
		}
		if i == 1800 {
			breaches = append(breaches, fmt.Sprintf("not quiet after half an hour: %s", w.describe()))
			break
		}
		time.Sleep(time.Second)
	}
	for _, p := range w.relays {
		p.cancel()
	}
	for i, p := range w.relays {
		select {
		case err := <-p.done:
			if err != nil {
				breaches = append(breaches, fmt.Sprintf("relay %d: Run returned %v", i, err))
			}
		case <-time.After(10 * time.Minute):
			breaches = append(breaches, fmt.Sprintf("relay %d: Run does not return", i))
		}
	}
	if w.spins != "" {
		breaches = append(breaches, w.spins)
	}
	if breaches = append(breaches, w.model.check(w.db, w.server)...); len(breaches) > 0 {
		breaches = append(breaches, "the last lines of the relays' logs:\n"+w.log.last(40))
	}
	return breaches
}

// quiet: whatever is still pending waits behind a blocked head.
func (w *world) quiet() bool {
	blocked := map[relay.Key]bool{}
	held := w.db.Held()
	for _, h := range held {
		switch {
		case h.State == relay.HeldBlocked:
			blocked[h.Row.Key] = h.Row.Key.Key != ""
		case !blocked[h.Row.Key]:
			return false
		}
	}
	return len(held) == len(w.db.Pending())
}

func (w *world) describe() (out string) {
	held := map[relay.RowID]memory.Held{}
	for _, h := range w.db.Held() {
		held[h.ID] = h
	}
	for _, r := range w.db.Pending() {
		out += fmt.Sprintf(" %s[id %d, key %v, held %q, available %v]", r.Payload, r.ID.Int(), r.Key, held[r.ID].State, r.Available)
	}
	return out
}

func (w *world) play(ctx context.Context, s step) {
	switch s.op {
	case "insert": // into an open transaction, which begins with its first event
		tx := w.txs[s.slot]
		if tx == nil {
			w.n++
			tx = &openTx{Tx: w.db.Begin(), number: w.n}
			w.txs[s.slot] = tx
		}
		w.insert(tx, s)
	case "write": // in a transaction of its own
		w.n++
		tx := &openTx{Tx: w.db.Begin(), number: w.n}
		w.insert(tx, s)
		w.commit(tx)
	case "commit":
		if tx := w.txs[s.slot]; tx != nil {
			w.commit(tx)
			delete(w.txs, s.slot)
		}
	case "rollback":
		if tx := w.txs[s.slot]; tx != nil {
			tx.Rollback()
			delete(w.txs, s.slot)
		}
	case "outage":
		w.mu.Lock()
		w.down[s.topic] = time.Now().Add(s.lasts)
		w.mu.Unlock()
	case "failover":
		w.model.faulty = true // replies that belong to the other server are dropped
		w.db.MutateServer(fmt.Sprintf("server %d", s.seed))
	case "hang up":
		w.db.HangUp()
	case "start":
		if len(w.live()) < 4 {
			w.start(ctx)
		}
	default:
		if live := w.live(); len(live) > 0 {
			w.disturb(ctx, live[s.slot%len(live)], s)
		}
	}
}

// disturb does something to one relay.
func (w *world) disturb(ctx context.Context, p *process, s step) {
	switch s.op {
	case "stop":
		p.gone = true
		p.in.Use(w.watch(nil)) // a drain that its faults outlast ends like a crash
		p.in.Release()
		p.cancel()
	case "crash":
		w.model.faulty, p.gone = true, true
		p.in.Crash()
		p.cancel()
	case "restart":
		w.model.faulty, p.gone = true, true
		p.in.Crash()
		p.cancel()
		w.start(ctx)
	case "slow": // a database that takes long over each fetch
		p.in.Use(w.watch(fault.Script{{Method: "Fetch", Fault: fault.Fault{After: 50 * time.Millisecond}}}.Plan()))
		time.AfterFunc(s.lasts, func() { p.in.Use(w.watch(nil)) })
	case "pause":
		w.model.faulty = true
		p.in.Pause()
		time.AfterFunc(s.lasts, p.in.Resume)
	case "errors": // without effect, which is no fault that excuses a duplicate
		// Leases are left alone: a lost one does excuse a duplicate.
		p.in.Use(w.watch(fault.Random(s.seed, fault.Rates{Fail: 0.2, Hang: 0.05, Err: errors.New("connection refused"), Methods: []string{
			"Fetch", "ReadKeys", "HeldKeys", "Settle", "Promote", "Keep", "Listen", "Arm", "Publish",
		}})))
		time.AfterFunc(s.lasts, func() { p.in.Use(w.watch(nil)) })
	case "losses":
		w.model.faulty = true
		p.in.Use(w.watch(fault.Random(s.seed, fault.Rates{Fail: 0.1, Lose: 0.2, Cut: 0.2, HangAfter: 0.05, Delay: 0.2, MaxDelay: 8 * time.Second})))
		time.AfterFunc(s.lasts, func() { p.in.Use(w.watch(nil)) })
	default:
		panic("no such step: " + s.op)
	}
}

func (w *world) live() (out []*process) {
	for _, p := range w.relays {
		if !p.gone {
			out = append(out, p)
		}
	}
	return out
}

// watch notices calls that are made again and again without time passing, and
// slows them down so that it passes.
func (w *world) watch(plan fault.Plan) fault.Plan {
	return func(c fault.Call) (f fault.Fault) {
		if plan != nil {
			f = plan(c)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if now := time.Now(); now != w.moment {
			w.moment, w.calls = now, 0
		}
		if w.calls++; w.calls > 3000 {
			w.spins = "a relay spins: " + c.Method
			f.Before += time.Millisecond
		}
		return f
	}
}

func (w *world) start(ctx context.Context) {
	p := &process{in: fault.New(w.watch(nil)), done: make(chan error, 1)}
	var store relay.Store = w.db.Connect()
	if !w.h.leases {
		store = fault.WithoutLeases(store)
	}
	r, err := relay.New(relay.Config{
		Databases: []relay.Database{{Name: "db", Store: fault.NewStore(store, p.in), Batch: w.h.batch}},
		Brokers:   map[string]relay.Broker{"default": fault.NewBroker(w.server.Connect(), p.in)},
		Routes:    []relay.Route{{Topic: "*", OnFailure: w.h.policy, MaxAttempts: w.h.maxAttempts}},
		Logger:    slog.New(slog.NewTextHandler(&w.log, nil)).With("relay", len(w.relays)),
		PlainKeys: true,
	})
	if err != nil {
		panic(err)
	}
	ctx, p.cancel = context.WithCancel(ctx)
	go func() { p.done <- r.Run(ctx) }()
	w.relays = append(w.relays, p)
}

func (w *world) insert(tx *openTx, s step) {
	for range max(s.count, 1) {
		e := &written{n: len(w.model.events), tx: tx.number, inserted: time.Now(), fate: s.fate}
		e.fate.final = s.fate.kind == "permanent" || s.fate.kind == "rejected" && w.h.maxAttempts > 0 && s.fate.times >= w.h.maxAttempts
		row := relay.Row{Key: relay.Key{Topic: s.topic, Key: s.key}, Payload: fmt.Appendf(nil, "%s/%s/%d", s.topic, s.key, e.n)}
		if s.schedule > 0 {
			row.Available = e.inserted.Add(s.schedule)
		}
		e.row = tx.Insert(row)[0]
		tx.events = append(tx.events, e)
		w.model.events = append(w.model.events, e)
		w.mu.Lock()
		w.fates[e.body()] = e.fate
		w.mu.Unlock()
		s.fate = fate{} // the first of several only
	}
}

func (w *world) commit(tx *openTx) {
	for _, e := range tx.events {
		e.committed = time.Now()
	}
	if err := tx.Commit(); err != nil {
		panic(err)
	}
}

// verdict is the broker's answer.
func (w *world) verdict(e relay.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	body := string(e.Payload)
	if time.Now().Before(w.down[e.Topic]) {
		return relay.Unavailable(errors.New("connection refused"))
	}
	f := w.fates[body]
	w.answers[body]++
	if !f.final && w.answers[body] > f.times {
		return nil
	}
	switch f.kind {
	case "rejected":
		w.model.refusal[body]++
		return relay.Rejected(errors.New("try later"))
	case "permanent":
		w.model.refusal[body]++
		return relay.Permanent(errors.New("invalid"))
	case "unknown":
		return errors.New("something odd")
	case "unavailable":
		return relay.Unavailable(errors.New("overloaded"))
	}
	return nil
}
