//go:build linux

package chaos

import (
	"testing"
	"time"
)

// Guarantee 2: with no fault there are no duplicates, however many relays run.
// The lease is the default one: a relay that a busy machine does not run for
// longer than its lease has met a fault.
func TestChaos_NoFaultNoDuplicate(t *testing.T) {
	t.Parallel()
	s := newStage(t, plan{pooled: true, lease: 10 * time.Second, publish: 5 * time.Second})
	s.startRelays()
	stop := s.write(6)
	s.flow(1000)
	s.finish(stop)
}

// One round for each fault.
func TestChaos_EachFault(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var p plan
			if f.needs != nil {
				f.needs(&p)
			}
			newStage(t, p).play(f)
		})
	}
}

// The history's ring is emptied while it is written: nothing else may go.
func TestChaos_HousekeepingBesideACrash(t *testing.T) {
	t.Parallel()
	newStage(t, plan{retention: time.Second}).play(faults[0])
}
