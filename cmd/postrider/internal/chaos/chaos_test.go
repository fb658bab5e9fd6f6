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
