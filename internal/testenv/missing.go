package testenv

import (
	"os"
	"testing"
	"time"
)

// grace is how long a server may take to start or to stop. It is long because
// machines that run tests are loaded; nothing waits for it in a good case.
const grace = 60 * time.Second

// missing skips t because a server cannot be had, and says what to install.
// With POSTRIDER_TEST_REQUIRE=all it fails t: a run that is meant to prove
// something must not be green because it tested nothing.
func missing(t testing.TB, what, install string) {
	t.Helper()
	if os.Getenv("POSTRIDER_TEST_REQUIRE") == "all" {
		t.Fatalf("MISSING %s, and POSTRIDER_TEST_REQUIRE=all: %s", what, install)
	}
	t.Skipf("MISSING %s: %s", what, install)
}
