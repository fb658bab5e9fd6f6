package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

var scheduledCases = []testcase{
	{"a scheduled row is not returned before it was promoted", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.Available = time.Now().Add(time.Hour)
		d.write(t, r, event("t", "k", 2))
		f := d.fetch(t, relay.FetchQuery{})
		if len(f.Rows) != 1 || f.Scheduled || f.Next < 59*time.Minute || f.Next > time.Hour+time.Second {
			t.Errorf("%d rows, scheduled %v, next %v", len(f.Rows), f.Scheduled, f.Next)
		}
		if n, err := d.Promote(t.Context(), 10); n != 0 || err != nil {
			t.Errorf("promoted %d before its time, %v", n, err)
		}
	}},
	{"an event available in the past is an ordinary one", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.Available = time.Now().Add(-time.Hour)
		same(t, "rows", d.fetchAfter(t, d.write(t, r)), []relay.Row{r})
	}},
	{"rows that fell due are promoted in (available_at, id) order, with a new id", func(t *testing.T, d *desk) {
		base := time.Now()
		var rows []relay.Row
		for i, after := range []time.Duration{300, 100, 200, 100} {
			r := event("t", "k", i)
			r.Available = base.Add(after * time.Millisecond)
			rows = append(rows, r)
		}
		rows = d.write(t, rows...)
		eventually(t, "all due", func() bool {
			return time.Since(base) > 400*time.Millisecond && d.fetch(t, relay.FetchQuery{}).Scheduled
		})
		if n, err := d.Promote(t.Context(), 3); n != 3 || err != nil {
			t.Fatalf("promoted %d of 3, %v", n, err)
		}
		if n, err := d.Promote(t.Context(), 3); n != 1 || err != nil {
			t.Fatalf("promoted %d of 1, %v", n, err)
		}
		late := d.write(t, event("t", "k", 9))
		f := d.fetch(t, relay.FetchQuery{})
		same(t, "rows", f.Rows, []relay.Row{rows[1], rows[3], rows[2], rows[0], late[0]})
		if f.Scheduled || f.Rows[0].ID.Int() <= rows[3].ID.Int() || f.Rows[0].EventID != rows[1].EventID {
			t.Errorf("scheduled %v, first row %+v", f.Scheduled, f.Rows[0])
		}
		if f.Rows[0].Queued.Before(rows[1].Available.Truncate(time.Millisecond)) {
			t.Error("queued before it was due")
		}
	}},
	{"a row that was promoted is settled under its new id only", func(t *testing.T, d *desk) {
		r := event("t", "k", 1)
		r.Available = time.Now().Add(20 * time.Millisecond)
		rows := d.write(t, r)
		eventually(t, "due", func() bool { n, err := d.Promote(t.Context(), 1); return n == 1 && err == nil })
		if out := d.settle(t, relay.Settlement{Delivered: refs(rows)}); out.Missed != 1 {
			t.Errorf("missed %d", out.Missed)
		}
		if out := d.settle(t, relay.Settlement{Delivered: refs(d.fetch(t, relay.FetchQuery{}).Rows)}); out.Missed != 0 {
			t.Errorf("missed %d", out.Missed)
		}
	}},
}

// fetchAfter fetches what was written before.
func (d *desk) fetchAfter(t testing.TB, _ []relay.Row) []relay.Row {
	t.Helper()
	return d.fetch(t, relay.FetchQuery{}).Rows
}

// keepAll keeps house until there is nothing to do.
func keepAll(t testing.TB, s relay.Store) (removed int64) {
	t.Helper()
	for range 100 {
		k, err := s.Keep(t.Context())
		if err != nil {
			t.Fatalf("keep: %v", err)
		}
		removed += k.Removed
		if !k.More {
			return removed
		}
	}
	t.Fatal("keep: always more")
	return removed
}

var keepCases = []testcase{
	{"guarantee 8: it never removes anything that is pending, nor what is younger than the retention", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 10)...)
		d.settle(t, relay.Settlement{Delivered: refs(rows[:3]), Dead: []relay.Death{{Ref: rows[3].Ref, Class: "c", Cause: "c"}}})
		d.mark(t, rows[4], relay.HeldBlocked, 0)
		keepAll(t, d.Store)
		x := d.Look(t)
		if len(x.Pending) != 6 || len(x.Delivered) != 3 || len(x.Dead) != 1 {
			t.Errorf("pending %d, delivered %d, dead %d", len(x.Pending), len(x.Delivered), len(x.Dead))
		}
	}},
	{"S31 delivered rows and dead letters older than the retention are removed", func(t *testing.T, d *desk) {
		if d.Caps.ShortRetention == nil {
			t.Skip("no such store")
		}
		short := d.Caps.ShortRetention(t)
		rows := d.write(t, events("t", "k", 10)...)
		out, err := short.Settle(t.Context(), relay.Settlement{Delivered: refs(rows[:5]), Dead: []relay.Death{{Ref: rows[5].Ref, Class: "c", Cause: "c"}}})
		if err != nil || out.Missed != 0 {
			t.Fatal(out, err)
		}
		var removed int64
		eventually(t, "old rows are gone", func() bool {
			removed += keepAll(t, short)
			x := d.Look(t)
			return len(x.Delivered) == 0 && len(x.Dead) == 0
		})
		if x := d.Look(t); len(x.Pending) != 4 {
			t.Errorf("pending %d", len(x.Pending))
		}
		if removed == 0 {
			t.Error("removed: 0")
		}
	}},
}

var reportCases = []testcase{
	{"it counts per topic and state", func(t *testing.T, d *desk) {
		r, ok := d.Store.(relay.Reporter)
		if !ok {
			t.Skip("this store is no relay.Reporter")
		}
		rows := d.write(t, append(events("a", "k", 5), events("b", "", 4)...)...)
		later := event("b", "k", 1)
		later.Available = time.Now().Add(time.Hour)
		d.write(t, later)
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		d.mark(t, rows[1], relay.HeldBehind, 0)
		d.settle(t, relay.Settlement{Dead: []relay.Death{{Ref: rows[5].Ref, Class: "c", Cause: "c"}}, Delivered: refs(rows[6:7])})
		got, err := r.Report(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		age := got.OldestPendingSeconds
		if got.PendingEvents != 7 || got.HeldEvents != 2 || got.BlockedKeys != 1 || got.ScheduledEvents != 1 || got.DeadEvents != 1 || got.Estimated || age < 0 || age > 60 {
			t.Errorf("%+v", got)
		}
		i := slices.IndexFunc(got.Topics, func(x relay.TopicReport) bool { return x.Topic == "b" })
		if i < 0 || got.Topics[i].PendingEvents != 2 || got.Topics[i].ScheduledEvents != 1 || got.Topics[i].DeadEvents != 1 || got.Topics[i].HeldEvents != 0 {
			t.Errorf("%+v", got.Topics)
		}
	}},
	{"an empty outbox", func(t *testing.T, d *desk) {
		r, ok := d.Store.(relay.Reporter)
		if !ok {
			t.Skip("this store is no relay.Reporter")
		}
		got, err := r.Report(t.Context())
		if err != nil || got.PendingEvents != 0 || len(got.Topics) != 0 || got.OldestPendingSeconds != 0 {
			t.Errorf("%+v, %v", got, err)
		}
	}},
	{"no count reads more than a fixed number of rows, and a count that was cut says so", func(t *testing.T, d *desk) {
		r, ok := d.Store.(relay.Reporter)
		if !ok {
			t.Skip("this store is no relay.Reporter")
		}
		if testing.Short() {
			t.Skip("writes 12,000 rows")
		}
		d.write(t, events("t", "k", 12000)...)
		got, err := r.Report(t.Context())
		if err != nil || got.PendingEvents < 10000 || (got.PendingEvents < 12000 && !got.Estimated) {
			t.Errorf("%+v, %v", got, fmt.Sprint(err))
		}
	}},
}
