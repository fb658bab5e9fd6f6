package fault_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

var errInjected = errors.New("injected")

func script(method string, f fault.Fault) *fault.Injector {
	return fault.New(fault.Script{{Method: method, Call: 1, Fault: f}}.Plan())
}

func events(keys ...string) []relay.Event {
	var out []relay.Event
	for _, k := range keys {
		out = append(out, relay.Event{Identity: k, DedupID: k, Topic: "t", Key: k})
	}
	return out
}

func TestStore_ErrIsWithoutEffectAndLostIsWithEffect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault fault.Fault
		left  int
	}{
		"before the effect": {fault.Fault{Err: errInjected}, 1},
		"after the effect":  {fault.Fault{Lost: errInjected}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := memory.New(memory.Config{})
			row := m.Insert(relay.Row{Key: relay.Key{Topic: "t"}})[0]
			s := fault.NewStore(m, script("Settle", c.fault))
			settlement := relay.Settlement{Delivered: []relay.Ref{row.Ref}}
			if _, err := s.Settle(t.Context(), settlement); !errors.Is(err, errInjected) {
				t.Fatalf("error %v", err)
			}
			if n := len(m.Pending()); n != c.left {
				t.Errorf("%d rows are pending, want %d", n, c.left)
			}
			if _, err := s.Settle(t.Context(), settlement); err != nil {
				t.Errorf("the second call: %v", err)
			}
		})
	}
}

func TestBroker_CutSendsAPartAndLosesTheRest(t *testing.T) {
	t.Parallel()
	m := memory.NewBroker(memory.ServerConfig{})
	in := script("Publish", fault.Fault{Events: 2})
	errs := fault.NewBroker(m, in).Publish(t.Context(), events("a", "b", "c"))
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], fault.ErrHung) || len(m.Log()) != 2 {
		t.Errorf("results %v, %d accepted", errs, len(m.Log()))
	}
	if in.Calls("Publish") != 1 {
		t.Errorf("%d calls counted", in.Calls("Publish"))
	}
}

func TestCrash_EndsWhatIsUnderWayAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := memory.NewBroker(memory.ServerConfig{PerEvent: time.Second})
		in := fault.New(nil)
		b := fault.NewBroker(m, in)
		done := make(chan []error)
		go func() { done <- b.Publish(t.Context(), events("a", "b", "c")) }()
		time.Sleep(1500 * time.Millisecond)
		in.Crash()
		for _, err := range <-done {
			if !errors.Is(err, fault.ErrCrashed) {
				t.Errorf("result %v", err)
			}
		}
		b.Publish(t.Context(), events("d"))
		if n := len(m.Log()); n != 1 {
			t.Errorf("%d accepted, want the one from before the crash", n)
		}
	})
}

func TestPause_HoldsCallsWhateverTheirContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := fault.New(nil)
		s := fault.NewStore(memory.New(memory.Config{}), in)
		in.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		time.AfterFunc(time.Minute, in.Resume)
		if _, err := s.Open(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Minute {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}

func TestHang_EndsWithTheContextOrByRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in := fault.New(fault.Script{{Method: "Open", Fault: fault.Fault{Hang: true}}}.Plan())
		s := fault.NewStore(memory.New(memory.Config{}), in)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Open(ctx); !errors.Is(err, fault.ErrHung) {
			t.Errorf("error %v", err)
		}
		time.AfterFunc(time.Minute, in.Release)
		if _, err := s.Open(t.Context()); !errors.Is(err, fault.ErrHung) {
			t.Errorf("error %v", err)
		}
	})
}

func TestWithoutLeases_HidesTheLeaser(t *testing.T) {
	t.Parallel()
	m := memory.New(memory.Config{})
	if _, ok := fault.NewStore(m, fault.New(nil)).(relay.Leaser); !ok {
		t.Error("the wrapper of a leaser is none")
	}
	if _, ok := fault.NewStore(fault.WithoutLeases(m), fault.New(nil)).(relay.Leaser); ok {
		t.Error("the wrapper of a store without leases is a leaser")
	}
}

func TestRandom_DependsOnSeedMethodAndNumberAlone(t *testing.T) {
	t.Parallel()
	rates := fault.Rates{Err: errInjected, Fail: 0.3, Lose: 0.3, Cut: 0.3, Panic: 0.1, Delay: 0.5}
	a, b, other := fault.Random(1, rates), fault.Random(1, rates), fault.Random(2, rates)
	differs := false
	for i := range 50 {
		b(fault.Call{Method: "Fetch", Number: i})
		c := fault.Call{Method: "Publish", Number: i, Events: 5}
		if a(c) != b(c) {
			t.Errorf("call %d differs under the same seed", i)
		}
		differs = differs || a(c) != other(c)
	}
	if !differs {
		t.Error("another seed made the same faults")
	}
}
