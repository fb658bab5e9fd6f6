package fault

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Script is a list of faults for named calls.
type Script []Step

// Step is one line of a [Script].
type Step struct {
	Method string
	// Call is the number of the call, from 1; 0 means every call that no other
	// step names.
	Call  int
	Fault Fault
}

// Plan makes a plan of the script. Of two steps for the same call the first
// wins.
func (s Script) Plan() Plan {
	return func(c Call) Fault {
		for _, step := range s {
			if step.Method == c.Method && step.Call == c.Number {
				return step.Fault
			}
		}
		for _, step := range s {
			if step.Method == c.Method && step.Call == 0 {
				return step.Fault
			}
		}
		return Fault{}
	}
}

// Rates are the probabilities, from 0 to 1, of the faults of [Random].
type Rates struct {
	// Fail is an error before the effect, Lose one after it, Hang no reply
	// before the effect, HangAfter one after it, Cut a Publish of which only a
	// part had its effect and of which all acknowledgements are lost, Panic a
	// panic in Publish.
	Fail, Lose, Hang, HangAfter, Cut, Panic float64
	// Delay is the probability of each of two delays, before and after the
	// effect, of up to MaxDelay (default 1s).
	Delay    float64
	MaxDelay time.Duration
	// Methods limits the faults to these methods. Default: all of them.
	Methods []string
	// Err is the error of Fail and Lose. Default: a plain one, of unknown cause.
	Err error
}

// Random is a plan of random faults. What happens to a call depends on the
// seed, the method and the call's number alone, not on the order in which
// goroutines come.
func Random(seed uint64, rates Rates) Plan {
	err := rates.Err
	if err == nil {
		err = errors.New("injected fault")
	}
	most := rates.MaxDelay
	if most <= 0 {
		most = time.Second
	}
	methods := map[string]bool{}
	for _, m := range rates.Methods {
		methods[m] = true
	}
	return func(c Call) (f Fault) {
		if len(methods) > 0 && !methods[c.Method] {
			return f
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(c.Method)) // never fails
		r := rand.New(rand.NewPCG(seed, h.Sum64()+uint64(c.Number)))
		// Every draw is made each time, so that one rate does not change what
		// another does.
		is := func(rate float64) bool { return r.Float64() < rate }
		fail, lose, hang, hangAfter, cut := is(rates.Fail), is(rates.Lose), is(rates.Hang), is(rates.HangAfter), is(rates.Cut)
		panics := is(rates.Panic)
		before, after := is(rates.Delay), is(rates.Delay)
		delays := [2]time.Duration{time.Duration(r.Int64N(int64(most))), time.Duration(r.Int64N(int64(most)))}
		part := r.IntN(max(c.Events, 1))

		f.Hang, f.HangAfter = hang, hangAfter
		if fail {
			f.Err = err
		}
		if lose {
			f.Lost = err
		}
		if cut && part > 0 {
			f.Events, f.Lost = part, err
		}
		if panics && c.Method == "Publish" {
			f.Panic = "injected panic"
		}
		if before {
			f.Before = delays[0]
		}
		if after {
			f.After = delays[1]
		}
		return f
	}
}
