package relay

import (
	"testing"
	"time"
)

// TestLongestWait: no back-off reaches as far as what stores take as due.
func TestLongestWait(t *testing.T) {
	t.Parallel()
	for n := range 200 {
		for range 20 {
			if d := retryDelay(n); d <= 0 || d >= LongestWait {
				t.Fatalf("wait %d is %v", n, d)
			}
		}
	}
	if asked := longestRetryAfter + jitterUp(longestRetryAfter); asked >= LongestWait || LongestWait > 2*time.Hour {
		t.Errorf("%v against %v", asked, LongestWait)
	}
}
