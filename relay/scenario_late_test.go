package relay_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/fault"
	"github.com/postrider/postrider/relay/memory"
)

// The first event of a key lies in a transaction that stays open for longer
// than a second. Its writer commits, and only then the second is written:
// the second must come second. A fetch that left out low ids, because fetches
// are slow, would bring the second alone.
func TestGuarantee3_ALateCommitIsNotOvertakenByItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, memory.ServerConfig{})
		n := w.node(func(c fault.Call) fault.Fault {
			if c.Method == "Fetch" { // dead rows under a held snapshot
				return fault.Fault{Before: 80 * time.Millisecond}
			}
			return fault.Fault{}
		})
		for round := range 20 {
			late := w.db.Begin()
			key := fmt.Sprintf("late%d", round)
			late.Insert(relay.Row{Key: relay.Key{Topic: "orders", Key: key}, Payload: []byte(key + " 0")})
			for i := range 40 {
				w.put("orders", "", fmt.Sprint(i))
				time.Sleep(100 * time.Millisecond)
			}
			if err := late.Commit(); err != nil {
				t.Fatal(err)
			}
			w.put("orders", key, key+" 1")
			time.Sleep(500 * time.Millisecond)
		}
		w.drained(20 * time.Second)
		w.firsts(nil, 0)
		n.stop()
	})
}
