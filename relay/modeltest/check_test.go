package modeltest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// The checks draw a history, run it in virtual time and hold the outcome against
// the model. A failure is shrunk; rerun one with -rapid.failfile or -rapid.seed.

func TestModel_RelaysShareTheLanes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt, writing, joining, failing, breaking)
		h.leases = true
		h.must(t, rt)
	})
}

func TestModel_NoDuplicateWithoutAFault(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt, writing, joining, failing)
		h.leases = true
		h.must(t, rt)
	})
}

// Order does not rest on leases: three relays that own everything at once, crash
// and lose acknowledgements send duplicates, and keep the order.
func TestModel_OrderDoesNotRestOnLeases(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt, writing, failing, []string{"restart", "losses", "pause"})
		h.relays = 3
		h.steps = append([]step{{op: "losses", lasts: time.Second}}, h.steps...) // duplicates are expected
		h.must(t, rt)
	})
}

func (h history) must(t *testing.T, rt *rapid.T) {
	breaches := h.play(t)
	if len(breaches) == 0 {
		return
	}
	small, why := h.shrink(t)
	rt.Fatalf("%v%s\n\nshrunk from a history of %d steps with: %s", small, strings.Join(append(why, "(does not fail again)")[:max(1, len(why))], "\n"), len(h.steps), breaches[0])
}

// play runs the history in virtual time. A loop that does not wait never lets
// that time pass, so a run that takes this long by the real clock is one.
func (h history) play(t *testing.T) (breaches []string) {
	watchdog := time.AfterFunc(time.Minute, func() { panic("a relay spins: " + h.String()) })
	defer watchdog.Stop()
	synctest.Test(t, func(t *testing.T) { breaches = h.run(t.Context()) })
	return breaches
}

// shrink leaves out steps as long as the rest still fails. It tries each rest a
// few times, since goroutines run in another order each time; rapid's own
// shrinking takes a failure that does not repeat at once as flaky and gives up.
func (h history) shrink(t *testing.T) (history, []string) {
	fails := func(h history) []string {
		for range 5 {
			if why := h.play(t); len(why) > 0 {
				return why
			}
		}
		return nil
	}
	why := fails(h)
	for n := len(h.steps) / 2; n > 0; n /= 2 {
		for i := 0; i+n <= len(h.steps); {
			less := h
			less.steps = slices.Delete(slices.Clone(h.steps), i, i+n)
			if w := fails(less); len(w) > 0 {
				h, why = less, w
			} else {
				i += n
			}
		}
	}
	return h, why
}

func (h history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "relays %d, leases %v, policy %q, max attempts %d, batch %d, %v per call, %v per event, destination per topic %v, mixes %v, lag %v\n",
		h.relays, h.leases, h.policy, h.maxAttempts, h.batch, h.perCall, h.perEvent, h.perTopic, h.mixes, h.lag)
	for _, s := range h.steps {
		fmt.Fprintf(&b, "  +%v %s %d %s/%s", s.wait, s.op, s.slot, s.topic, s.key)
		if s.op == "write" || s.op == "insert" {
			fmt.Fprintf(&b, ", %d events, %s %d times, in %v", s.count, cmp.Or(s.fate.kind, "refused"), s.fate.times, s.schedule)
		}
		fmt.Fprintf(&b, ", for %v, seed %d\n", s.lasts, s.seed)
	}
	return b.String()
}

// What can happen in a history. Writing comes up most.
var (
	writing  = []string{"write", "write", "write", "insert", "insert", "commit", "commit", "rollback"}
	failing  = []string{"outage", "errors", "hang up"}
	joining  = []string{"start", "stop"}
	breaking = []string{"crash", "restart", "pause", "losses", "failover"}
)

func drawHistory(rt *rapid.T, ops ...[]string) history {
	var all []string
	for _, o := range ops {
		all = append(all, o...)
	}
	between := func(name string, lo, hi time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(lo/time.Millisecond), int64(hi/time.Millisecond)).Draw(rt, name)) * time.Millisecond
	}
	h := history{
		relays:      rapid.IntRange(1, 3).Draw(rt, "relays"),
		policy:      rapid.SampledFrom([]string{"", "block", "dead_letter"}).Draw(rt, "policy"),
		maxAttempts: rapid.IntRange(0, 3).Draw(rt, "max_attempts"),
		batch:       rapid.SampledFrom([]int{1, 2, 5, 50, 4000}).Draw(rt, "batch"),
		perCall:     rapid.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond}).Draw(rt, "per_call"),
		perEvent:    rapid.SampledFrom([]time.Duration{0, time.Millisecond, 700 * time.Millisecond}).Draw(rt, "per_event"),
		perTopic:    rapid.Bool().Draw(rt, "per_topic"),
		mixes:       rapid.Bool().Draw(rt, "mixes"),
		lag:         rapid.Bool().Draw(rt, "lag"),
	}
	for range rapid.IntRange(1, 60).Draw(rt, "steps") {
		s := step{
			op:    rapid.SampledFrom(all).Draw(rt, "op"),
			slot:  rapid.IntRange(0, 2).Draw(rt, "slot"),
			topic: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "topic"),
		}
		if rapid.IntRange(0, 3).Draw(rt, "waits") == 0 {
			s.wait = between("wait", 1*time.Millisecond, 8*time.Second)
		}
		switch s.op {
		case "write", "insert":
			s.key = rapid.SampledFrom([]string{"k", "k", "l", "m", ""}).Draw(rt, "key")
			s.count = rapid.SampledFrom([]int{1, 1, 1, 2, 3, 20}).Draw(rt, "count")
			s.fate.kind = rapid.SampledFrom([]string{"", "", "", "", "rejected", "permanent", "unknown", "unavailable"}).Draw(rt, "fate")
			if s.fate.kind != "" {
				s.fate.times = rapid.IntRange(1, 4).Draw(rt, "times")
			}
			if rapid.IntRange(0, 5).Draw(rt, "scheduled") == 0 {
				s.schedule = between("schedule", 1*time.Millisecond, 20*time.Second)
			}
		case "outage", "pause", "errors", "losses":
			s.lasts = between("lasts", 100*time.Millisecond, 40*time.Second)
			s.seed = rapid.Uint64().Draw(rt, "seed")
		case "failover":
			s.seed = rapid.Uint64().Draw(rt, "seed")
		}
		h.steps = append(h.steps, s)
	}
	return h
}
