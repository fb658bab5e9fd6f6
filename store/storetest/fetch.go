package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

var openCases = []testcase{
	{"Open may be called again after a success, and names the same server", func(t *testing.T, d *desk) {
		one, err1 := d.Open(t.Context())
		two, err2 := d.Open(t.Context())
		if err := errors.Join(err1, err2); err != nil || one.Identity == "" || one.Identity != two.Identity {
			t.Errorf("%+v, %+v, %v", one, two, err)
		}
		if one.Lanes != d.Caps.Lanes {
			t.Errorf("lanes %v", one.Lanes)
		}
	}},
	{"Close is safe to call twice, and methods fail after it", func(t *testing.T, d *desk) {
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Error(err)
		}
		if _, err := d.Fetch(t.Context(), relay.FetchQuery{Rows: 1}); err == nil {
			t.Error("fetch after close")
		}
	}},
}

var fetchCases = []testcase{
	{"a commit is visible, a rollback is not", func(t *testing.T, d *desk) {
		tx := d.Begin(t)
		tx.Insert(t, event("t", "k", 1))
		tx.Rollback(t)
		tx = d.Begin(t)
		rows := tx.Insert(t, event("t", "k", 2))
		if got := d.fetch(t, relay.FetchQuery{}).Rows; len(got) != 0 {
			t.Errorf("fetched before commit: %v", names(got))
		}
		tx.Commit(t)
		same(t, "after commit", d.fetch(t, relay.FetchQuery{}).Rows, rows)
	}},
	{"S01 a lower id that commits later is returned", func(t *testing.T, d *desk) {
		if !d.Caps.Writers {
			t.Skip("one writer at a time")
		}
		late, early := d.Begin(t), d.Begin(t)
		a := late.Insert(t, event("t", "a", 1))
		b := early.Insert(t, event("t", "b", 2))
		early.Commit(t)
		f := d.fetch(t, relay.FetchQuery{})
		same(t, "first", f.Rows, b)
		late.Commit(t)
		same(t, "then", d.fetch(t, relay.FetchQuery{Skip: ids(b)}).Rows, a)
		same(t, "both", d.fetch(t, relay.FetchQuery{}).Rows, append(a, b...))
	}},
	{"rows are ascending per topic", func(t *testing.T, d *desk) {
		var a, b []relay.Row
		for i := range 20 {
			a = append(a, d.write(t, event("a", "k", i))...)
			b = append(b, d.write(t, event("b", "k", i), event("b", "l", i))...)
		}
		got := d.fetch(t, relay.FetchQuery{}).Rows
		same(t, "a", ofTopic(got, "a"), a)
		same(t, "b", ofTopic(got, "b"), b)
	}},
	{"rows in Skip are left out", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 10)...)
		f := d.fetch(t, relay.FetchQuery{Skip: ids(rows[:4]), Rows: 3})
		same(t, "rows", f.Rows, rows[4:7])
		f = d.fetch(t, relay.FetchQuery{Skip: ids(rows)})
		if len(f.Rows) != 0 || f.More {
			t.Errorf("all in flight: %v, more %v", names(f.Rows), f.More)
		}
	}},
	{"it reads only", func(t *testing.T, d *desk) {
		d.write(t, events("t", "k", 3)...)
		before := d.Look(t)
		d.fetch(t, relay.FetchQuery{})
		if after := d.Look(t); len(after.Pending) != len(before.Pending) || len(after.Delivered) != 0 {
			t.Error("tables changed")
		}
		same(t, "again", d.fetch(t, relay.FetchQuery{}).Rows, d.fetch(t, relay.FetchQuery{}).Rows)
	}},
	{"Topics limits rows to these, Without leaves these out", func(t *testing.T, d *desk) {
		a, b := d.write(t, event("a", "k", 1)), d.write(t, event("b", "k", 1))
		d.write(t, event("c", "k", 1))
		same(t, "topics", d.fetch(t, relay.FetchQuery{Topics: []string{"b", "none"}}).Rows, b)
		same(t, "without", d.fetch(t, relay.FetchQuery{Without: []string{"b", "c"}}).Rows, a)
		if got := d.fetch(t, relay.FetchQuery{Topics: []string{}}).Rows; len(got) != 0 {
			t.Errorf("no topics: %v", names(got))
		}
	}},
	{"Peek brings the same rows, Closed and More as a whole fetch", func(t *testing.T, d *desk) {
		a, b := d.write(t, events("a", "k", 3)...), d.write(t, event("b", "k", 1))
		d.mark(t, b[0], relay.HeldBlocked, 0)
		behind := d.write(t, event("b", "k", 2))
		f := d.fetch(t, relay.FetchQuery{Peek: true, Skip: []relay.RowID{a[0].ID}})
		same(t, "rows", f.Rows, a[1:])
		if len(f.Closed) != 1 || f.Closed[0].ID != behind[0].ID {
			t.Errorf("closed: %v, want %v", names(f.Closed), names(behind))
		}
		if f.More {
			t.Error("more, though all came")
		}
		if f := d.fetch(t, relay.FetchQuery{Peek: true, Rows: 2, Without: []string{"b"}}); len(f.Rows) != 2 || !f.More {
			t.Errorf("%d rows of 2, more %v", len(f.Rows), f.More)
		}
		if f := d.fetch(t, relay.FetchQuery{Peek: true, Bytes: 1}); len(f.Rows) > 1 || !f.More {
			t.Errorf("%d rows of at most one, more %v", len(f.Rows), f.More)
		}
		var none relay.Lanes
		if f := d.fetch(t, relay.FetchQuery{Peek: true, Lanes: &none}); len(f.Rows) != 0 {
			t.Errorf("%d rows of no lane", len(f.Rows))
		}
	}},
	{"a row below its floor is found by a fetch without floors", func(t *testing.T, d *desk) {
		rows := d.write(t, events("t", "k", 5)...)
		fresh := d.write(t, event("new", "k", 1))
		f := d.fetch(t, relay.FetchQuery{Floors: map[string]relay.RowID{"t": rows[2].ID}, High: rows[4].ID})
		if slices.ContainsFunc(f.Rows, func(r relay.Row) bool { return r.Topic == "t" && r.ID.Int() < rows[2].ID.Int() }) {
			t.Log("this store ignores floors, as it may")
		}
		if got := ofTopic(f.Rows, "t"); len(got) < 3 {
			t.Errorf("at and above the floor: %v", names(got))
		}
		same(t, "a topic that came since", ofTopic(f.Rows, "new"), fresh)
		same(t, "without floors", ofTopic(d.fetch(t, relay.FetchQuery{}).Rows, "t"), rows)
	}},
	{"Lanes limits rows to these lanes, by the event id where the key is empty", func(t *testing.T, d *desk) {
		if !d.Caps.Lanes {
			t.Skip("this store has one lane")
		}
		rows := d.write(t, append(events("t", "", 30), events("t", keyOfLane(7), 2)...)...)
		for i := range 40 {
			rows = append(rows, d.write(t, event("t", keyOfLane(uint8(i*6)), i))...)
		}
		for _, cut := range []int{0, 7, 128, 255} {
			var lanes relay.Lanes
			for lane := range cut + 1 {
				lanes.Add(uint8(lane))
			}
			var want []relay.Row
			for _, r := range rows {
				if lanes.Has(relay.LaneOf(r.Key.Key, r.EventID)) {
					want = append(want, r)
				}
			}
			got := d.fetch(t, relay.FetchQuery{Lanes: &lanes})
			same(t, "rows", got.Rows, want)
			got = d.fetch(t, relay.FetchQuery{Lanes: &lanes, Floors: map[string]relay.RowID{"t": rows[0].ID}, High: rows[len(rows)-1].ID})
			same(t, "rows with floors", got.Rows, want)
		}
		if f := d.fetch(t, relay.FetchQuery{Lanes: &relay.Lanes{}}); len(f.Rows) != 0 || f.More {
			t.Error("rows of no lane")
		}
	}},
	{"Due are closed keys whose head's retry_at has come, the earliest first", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "a", 1), event("t", "b", 1), event("t", "c", 1), event("t", "d", 1), event("u", "e", 1), event("t", "", 1))
		d.mark(t, rows[0], relay.HeldRetry, 0)
		time.Sleep(5 * time.Millisecond) // the order of retry_at, which SQLite keeps in milliseconds
		d.mark(t, rows[1], relay.HeldRetry, 0)
		d.mark(t, rows[2], relay.HeldBlocked, 0)
		d.mark(t, rows[3], relay.HeldRetry, time.Hour)
		time.Sleep(5 * time.Millisecond)
		d.mark(t, rows[4], relay.HeldRetry, 0)
		time.Sleep(5 * time.Millisecond)
		d.mark(t, rows[5], relay.HeldRetry, 0)
		time.Sleep(5 * time.Millisecond)
		f := d.fetch(t, relay.FetchQuery{})
		want := []relay.Key{{Topic: "t", Key: "a"}, {Topic: "t", Key: "b"}, {Topic: "u", Key: "e"}, {Topic: "t"}}
		if !slices.Equal(f.Due, want) {
			t.Errorf("due %v, want %v", f.Due, want)
		}
		if f.Next < 59*time.Minute || f.Next > time.Hour {
			t.Errorf("next in %v, want an hour", f.Next)
		}
		if got := d.fetch(t, relay.FetchQuery{Topics: []string{"u"}}).Due; !slices.Equal(got, want[2:3]) {
			t.Errorf("due of topic u: %v", got)
		}
		if got := d.fetch(t, relay.FetchQuery{Without: []string{"t"}}).Due; !slices.Equal(got, want[2:3]) {
			t.Errorf("due without topic t: %v", got)
		}
		if d.Caps.Lanes {
			var lanes relay.Lanes
			lanes.Add(relay.LaneOf("b", rows[1].EventID))
			for _, k := range d.fetch(t, relay.FetchQuery{Lanes: &lanes}).Due {
				if k.Key != "" && !lanes.Has(relay.LaneOf(k.Key, rows[1].EventID)) {
					t.Errorf("due of another lane: %v", k)
				}
			}
		}
	}},
	{"Next is 0 when nothing is waiting", func(t *testing.T, d *desk) {
		rows := d.write(t, event("t", "a", 1))
		d.mark(t, rows[0], relay.HeldBlocked, 0)
		if f := d.fetch(t, relay.FetchQuery{}); f.Next != 0 || f.Scheduled || len(f.Due) != 0 {
			t.Errorf("next %v, scheduled %v, due %v", f.Next, f.Scheduled, f.Due)
		}
	}},
	{"Paused are the topics and destinations that operators paused", func(t *testing.T, d *desk) {
		c := relay.Control{Kind: "topic", Name: "t", By: "me", Reason: `a "good" one`}
		d.Pause(t, c)
		rows := d.write(t, event("t", "k", 1))
		f := d.fetch(t, relay.FetchQuery{})
		if len(f.Paused) != 1 || f.Paused[0].Since.IsZero() {
			t.Fatalf("paused %+v", f.Paused)
		}
		f.Paused[0].Since = time.Time{}
		if f.Paused[0] != c {
			t.Errorf("paused %+v, want %+v", f.Paused[0], c)
		}
		same(t, "rows: the relay decides", f.Rows, rows)
	}},
	{"Server is the identity of Open, Now the database's clock", func(t *testing.T, d *desk) {
		server, err := d.Store.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f := d.fetch(t, relay.FetchQuery{})
		if f.Server != server.Identity {
			t.Errorf("server %q, at open %q", f.Server, server.Identity)
		}
		if off := time.Since(f.Now).Abs(); off > time.Minute {
			t.Errorf("now is %v off on one machine", off)
		}
	}},
	{"the times of a row are the database's", func(t *testing.T, d *desk) {
		d.write(t, event("t", "k", 1))
		f := d.fetch(t, relay.FetchQuery{})
		r := f.Rows[0]
		if age := f.Now.Sub(r.Queued); age < -time.Millisecond || age > time.Minute {
			t.Errorf("age %v", age)
		}
		if !r.Available.IsZero() || r.Created.IsZero() {
			t.Errorf("available %v, created %v", r.Available, r.Created)
		}
	}},
}
