package modeltest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
)

// process is one relay with its own clients of the database and the broker.
type process struct {
	in     *fault.Injector
	calm   fault.Plan // without faults
	cancel context.CancelFunc
	done   chan error
	gone   bool // was told to stop, or crashed
}

// disturb does something to one relay.
func (w *world) disturb(ctx context.Context, p *process, s step) {
	switch s.op {
	case "stop":
		p.gone = true
		p.in.Use(p.calm) // a drain that its faults outlast ends like a crash
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
		time.AfterFunc(s.lasts, func() { p.in.Use(p.calm) })
	case "pause":
		w.model.faulty = true
		p.in.Pause()
		time.AfterFunc(s.lasts, p.in.Resume)
	case "errors": // without effect, which is no fault that excuses a duplicate
		// Leases are left alone: a lost one does excuse a duplicate.
		p.in.Use(w.watch(fault.Random(s.seed, fault.Rates{Fail: 0.2, Hang: 0.05, Err: errors.New("connection refused"), Methods: []string{
			"Fetch", "ReadKeys", "HeldKeys", "Settle", "Promote", "Keep", "Listen", "Arm", "Publish",
		}})))
		time.AfterFunc(s.lasts, func() { p.in.Use(p.calm) })
	case "losses":
		w.model.faulty = true
		p.in.Use(w.watch(fault.Random(s.seed, fault.Rates{Fail: 0.1, Lose: 0.2, Cut: 0.2, HangAfter: 0.05, Delay: 0.2, MaxDelay: 8 * time.Second})))
		time.AfterFunc(s.lasts, func() { p.in.Use(p.calm) })
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
	p := &process{done: make(chan error, 1)}
	var lag fault.Plan
	if w.h.lag {
		lag = fault.Random(uint64(len(w.relays)), fault.Rates{Delay: 0.3, MaxDelay: 300 * time.Millisecond})
	}
	p.calm = w.watch(lag)
	p.in = fault.New(p.calm)
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
