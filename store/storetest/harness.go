package storetest

import (
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// Harness is one fresh outbox. Run asks for a new one for each case; cases run in
// parallel.
type Harness struct {
	// Connect opens another Store of this outbox, as another relay would, and closes
	// it after the test. Retention is 24h.
	Connect func(t testing.TB) relay.Store
	// Begin starts a writer's transaction on a connection of its own.
	Begin func(t testing.TB) Tx
	// Look reads the tables.
	Look func(t testing.TB) Tables
	// Pause writes what an operator paused.
	Pause func(t testing.TB, c relay.Control)
	Caps  Caps
}

// Caps say which cases apply.
type Caps struct {
	// Lanes: a fetch can be limited to lanes.
	Lanes bool
	// Writers: several writers' transactions can be open at once.
	Writers bool
	// AnyKey: keys may hold every character. Not in a database with a one-byte
	// encoding.
	AnyKey bool
	// ShortRetention, if set, opens a Store that keeps delivered rows and dead
	// letters for a second.
	ShortRetention func(t testing.TB) relay.Store
	// NoRetention, if set, opens a Store that keeps no history.
	NoRetention func(t testing.TB) relay.Store
}

// Tx is a writer's transaction.
type Tx interface {
	// Insert writes events and returns them as they lie in the outbox. Of a row it
	// takes what a writer may set: EventID (one is made if zero), Topic, Key, Type,
	// Payload, ContentType, Headers, SchemaVersion, SubjectVersion and Available.
	Insert(t testing.TB, rows ...relay.Row) []relay.Row
	Commit(t testing.TB)
	Rollback(t testing.TB)
}

// Tables is what lies in the tables.
type Tables struct {
	Pending   []Record    // by id
	Delivered []relay.Row // by id
	Dead      []Dead      // by id
}

// Record is a row of the outbox.
type Record struct {
	relay.Row
	Held  relay.Held
	Retry time.Time // retry_at
}

// Dead is a dead letter.
type Dead struct {
	relay.Row
	Class, Cause string
}

// record returns the pending row of an event.
func (x Tables) record(r relay.Row) (Record, bool) {
	for _, p := range x.Pending {
		if p.EventID == r.EventID {
			return p, true
		}
	}
	return Record{}, false
}

// Run runs the suite.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, theme := range []struct {
		name  string
		cases []testcase
	}{
		{"Open", openCases},
		{"Fetch", fetchCases},
		{"Bounds", boundCases},
		{"Bytes", byteCases},
		{"Closed keys", keyCases},
		{"Settle", settleCases},
		{"Scheduled", scheduledCases},
		{"Keep", keepCases},
		{"Lease", leaseCases},
		{"Compete", competeCases},
		{"Wake", wakeCases},
		{"Report", reportCases},
		{"Together", togetherCases},
	} {
		t.Run(theme.name, func(t *testing.T) {
			for _, c := range theme.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					h := open(t)
					c.run(t, &desk{Harness: h, Store: h.Connect(t)})
				})
			}
		})
	}
}

type testcase struct {
	name string
	run  func(t *testing.T, d *desk)
}

// desk is what a case works on: a harness and its first store.
type desk struct {
	Harness
	relay.Store
}
