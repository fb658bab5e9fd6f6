package storetest_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
	"github.com/postrider/postrider/store/storetest"
)

// The reference implementation passes the suite; where the two disagree, one of
// them misreads the contract.
func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		s := memory.New(memory.Config{Retention: 24 * time.Hour})
		return storetest.Harness{
			Connect: func(testing.TB) relay.Store { return s.Database.Connect() },
			Begin:   func(testing.TB) storetest.Tx { return memoryTx{s.Database.Begin()} },
			Look:    func(testing.TB) storetest.Tables { return look(s.Database) },
			Pause: func(_ testing.TB, c relay.Control) {
				c.Since = time.Now()
				s.Database.Pause(c)
			},
			Caps: storetest.Caps{Lanes: true, Writers: true, AnyKey: true},
		}
	})
}

type memoryTx struct{ tx *memory.Tx }

func (x memoryTx) Insert(_ testing.TB, rows ...relay.Row) []relay.Row { return x.tx.Insert(rows...) }
func (x memoryTx) Rollback(testing.TB)                                { x.tx.Rollback() }
func (x memoryTx) Commit(t testing.TB) {
	if err := x.tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func look(d *memory.Database) (out storetest.Tables) {
	held := map[relay.RowID]memory.Held{}
	for _, h := range d.Held() {
		held[h.ID] = h
	}
	for _, r := range d.Pending() {
		h := held[r.ID]
		out.Pending = append(out.Pending, storetest.Record{Row: r, Held: h.State, Retry: h.RetryAt})
	}
	for _, r := range d.Delivered() {
		out.Delivered = append(out.Delivered, r.Row)
	}
	for _, r := range d.Dead() {
		out.Dead = append(out.Dead, storetest.Dead{Row: r.Row, Class: r.Class, Cause: r.Cause})
	}
	return out
}
