//go:build linux

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv"
)

// defaultRounds is the number of rounds of a soak.
const defaultRounds = 50

// Several faults at once, drawn from the seed.
func TestChaos_RandomFaults(t *testing.T) {
	t.Parallel()
	rounds, err := strconv.Atoi(os.Getenv("POSTRIDER_CHAOS_ROUNDS"))
	if err != nil {
		rounds = 2
		if os.Getenv("POSTRIDER_SOAK") != "" {
			rounds = defaultRounds
		}
	}
	seed, versions := seedFromEnvironment(), testenv.PGVersions()
	t.Logf("POSTRIDER_CHAOS_SEED=%d", seed)
	for n := range rounds {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := plan{version: versions[n%len(versions)], seed: or(seed+uint64(n), 1), pooled: true, ownProxies: true}
			rng := rand.New(rand.NewPCG(p.seed, 2))
			if n%3 == 0 { // a promotion needs other addresses for the relays
				p.standby, p.pooled, p.ownProxies = true, false, false
			}
			if rng.IntN(3) == 0 {
				p.retention = time.Second
			}
			newStage(t, p).playRandom()
		})
	}
}

// struck is a fault that has not healed.
type struck struct {
	fault
	heal  func()
	until time.Time // earliest
}

// playRandom lets 3 to 6 faults strike, each beside those that still last.
func (s *stage) playRandom() {
	s.Helper()
	s.startRelays()
	stop := s.write(6)
	s.flow(200)
	s.broken = true
	var active []struck
	for range 3 + s.rng.IntN(4) {
		for len(active) > 0 && s.rng.IntN(2) == 0 {
			active = s.healOne(active)
		}
		f, ok := s.draw(active)
		if !ok {
			active = s.healOne(active)
			continue
		}
		s.note("strikes: %s", f.name)
		heal := f.strike(s)
		active = append(active, struck{f, heal, time.Now().Add(time.Duration(f.leases * float64(s.plan.lease)))})
		time.Sleep(time.Duration(s.rng.IntN(1000)) * time.Millisecond)
	}
	for len(active) > 0 {
		active = s.healOne(active)
	}
	if s.standby != nil { // it is what this round was made for
		f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.name == promotion })]
		s.note("strikes: %s", f.name)
		f.strike(s)()
	}
	s.flow(200)
	s.finish(stop)
}

func (s *stage) healOne(active []struck) []struck {
	s.Helper()
	i := s.rng.IntN(len(active))
	a := active[i]
	time.Sleep(time.Until(a.until))
	a.heal()
	s.note("healed: %s", a.name)
	return append(active[:i:i], active[i+1:]...)
}

// draw chooses a fault that this stage has the parts for, and that may strike
// beside those that last.
func (s *stage) draw(active []struck) (fault, bool) {
	for range 100 {
		f := faults[s.rng.IntN(len(faults))]
		if s.possible(f, active) {
			return f, true
		}
	}
	return fault{}, false
}

func (s *stage) possible(f fault, active []struck) bool {
	var needs plan
	if f.needs != nil {
		f.needs(&needs)
	}
	if needs.pooled && s.bouncer == nil || needs.ownProxies && len(s.toPG) == 0 || needs.standby && s.standby == nil {
		return false
	}
	if f.alone && len(active) > 0 {
		return false
	}
	for _, a := range active {
		if a.alone || clash(f, a.fault) {
			return false
		}
	}
	free := 0
	for _, r := range s.relays {
		if r.running() && !s.taken[r] {
			free++
		}
	}
	return free > 1 // one is left to go on
}
