package relay_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that outlives Run would go on publishing for a relay that is gone.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
