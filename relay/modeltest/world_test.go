package modeltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
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
	lag         bool // requests and replies take up to 300 ms each, which is no fault
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
		p.in.Use(p.calm)
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
