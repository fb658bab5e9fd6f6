// Package fault wraps stores and brokers for tests, and makes their calls fail
// as networks, servers and processes do: before the effect, after it with the
// reply lost, late, not at all, with a panic, or for ever once the process is
// dead. It is for tests only.
//
// An [Injector] stands for one process: all wrappers that share it crash and
// pause together.
//
//	in := fault.New(fault.Script{{Method: "Publish", Call: 2, Fault: fault.Fault{Lost: errors.New("ack lost")}}}.Plan())
//	db := fault.NewStore(memory.New(memory.Config{}), in)
//	br := fault.NewBroker(memory.NewBroker(memory.ServerConfig{}), in)
//	…
//	in.Crash() // as kill -9: from now on nothing of this process has an effect
//
// Waiting uses channels and the time package alone, so that it runs inside
// testing/synctest.
package fault

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrCrashed is what every call of a crashed process returns.
var ErrCrashed = errors.New("process is dead")

// ErrHung is returned by a call that hung until its context was done or it was
// released.
var ErrHung = errors.New("no reply")

// Fault is what happens to one call. The zero value is no fault. The fields
// apply in their order.
type Fault struct {
	// Before delays the call before its effect.
	Before time.Duration
	// Hang holds the call back without effect until its context is done or
	// [Injector.Release] is called; then it fails with ErrHung.
	Hang bool
	// Panic, if not nil, is thrown, without effect.
	Panic any
	// Err fails the call without effect.
	Err error
	// Events, if above 0, cuts a Publish: only the first Events of it reach the
	// broker, the rest fail with ErrHung.
	Events int
	// After delays the reply, whatever the context says: the effect is there,
	// the caller does not know.
	After time.Duration
	// HangAfter holds the reply back as Hang does, after the effect.
	HangAfter bool
	// Crash kills the process between the effect and the reply. With Err or
	// Hang there is no effect, and no crash either.
	Crash bool
	// Lost replaces the reply by this error; each event's, of a Publish.
	Lost error
}

// Call names a call, for a plan to choose a fault for it.
type Call struct {
	// Method is the method's name, such as Fetch, Settle, Publish.
	Method string
	// Number counts the calls of this method by this process, from 1.
	Number int
	// Events is the number of events of a Publish, of the rows of a Settle.
	Events int
}

// Plan chooses the fault of each call. It may be called from several goroutines
// at once.
type Plan func(Call) Fault

// Injector stands for one process whose calls can fail. Safe for concurrent
// use.
type Injector struct {
	mu      sync.Mutex
	plan    Plan
	counts  map[string]int
	release chan struct{} // closed to release what hangs
	gate    chan struct{} // not nil while paused
	dead    chan struct{} // closed by Crash
	crashed bool
}

// New makes an injector. A nil plan is no faults.
func New(plan Plan) *Injector {
	return &Injector{plan: plan, counts: map[string]int{}, release: make(chan struct{}), dead: make(chan struct{})}
}

// Use changes the plan; nil heals.
func (in *Injector) Use(plan Plan) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.plan = plan
}

// Calls returns how often a method was called, faults included.
func (in *Injector) Calls(method string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.counts[method]
}

// Crash kills the process: every call, also one that is under way, fails with
// [ErrCrashed]. One that is under way may have had its effect. Crash cannot be
// undone; a restarted process is another injector.
func (in *Injector) Crash() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.crashed {
		in.crashed = true
		close(in.dead)
	}
}

// Crashed reports whether the process is dead.
func (in *Injector) Crashed() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.crashed
}

// Pause stops the process, as SIGSTOP or a long garbage collection does: calls
// neither begin nor return until Resume, whatever their contexts say.
func (in *Injector) Pause() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.gate == nil {
		in.gate = make(chan struct{})
	}
}

// Resume ends a Pause.
func (in *Injector) Resume() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.gate != nil {
		close(in.gate)
		in.gate = nil
	}
}

// Release ends every Hang and HangAfter that is under way.
func (in *Injector) Release() {
	in.mu.Lock()
	defer in.mu.Unlock()
	close(in.release)
	in.release = make(chan struct{})
}

// begin counts a call and returns its fault, and the error of a process that is
// dead or of a call that must fail without effect.
func (in *Injector) begin(ctx context.Context, method string, events int) (Fault, error) {
	if err := in.pass(); err != nil {
		return Fault{}, err
	}
	in.mu.Lock()
	in.counts[method]++
	plan, call := in.plan, Call{method, in.counts[method], events}
	in.mu.Unlock()
	if plan == nil {
		return Fault{}, nil
	}
	f := plan(call)
	if err := in.wait(ctx, f.Before); err != nil {
		return f, err
	}
	if f.Hang {
		in.hang(ctx)
		return f, errors.Join(ErrHung, in.pass())
	}
	if err := in.pass(); err != nil {
		return f, err
	}
	if f.Panic != nil {
		panic(f.Panic)
	}
	return f, f.Err
}

// end is what happens between the effect and the reply. Its error takes the
// place of the reply.
func (in *Injector) end(ctx context.Context, f Fault) error {
	if f.Crash {
		in.Crash()
	}
	if f.After > 0 {
		_ = in.wait(context.WithoutCancel(ctx), f.After)
	}
	if f.HangAfter {
		in.hang(ctx)
		f.Lost = errors.Join(ErrHung, f.Lost)
	}
	if err := in.pass(); err != nil {
		return err
	}
	return f.Lost
}

// pass waits while the process is paused and fails if it is dead.
func (in *Injector) pass() error {
	for {
		in.mu.Lock()
		gate, crashed := in.gate, in.crashed
		in.mu.Unlock()
		if crashed {
			return ErrCrashed
		}
		if gate == nil {
			return nil
		}
		select {
		case <-gate:
		case <-in.dead:
		}
	}
}

func (in *Injector) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-in.dead:
		return ErrCrashed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (in *Injector) hang(ctx context.Context) {
	in.mu.Lock()
	release := in.release
	in.mu.Unlock()
	select {
	case <-release:
	case <-in.dead:
	case <-ctx.Done():
	}
}

// alive returns a context that ends when the process dies, so that what a call
// has not done by then it does not do. The caller must call the cancel function.
func (in *Injector) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-in.dead:
			cancel(ErrCrashed)
		case <-done:
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		close(done)
		cancel(nil)
		wg.Wait()
	}
}
