package postgres

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/postrider/postrider/relay"
)

// S65: whatever a broker says, the text can be stored.
func FuzzSanitise(f *testing.F) {
	for _, s := range []string{"", "a\x00b", "\xff\xfe", strings.Repeat("€", 1000), "\xed\xa0\x80", strings.Repeat("\xf0", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, unicode := range []bool{true, false} {
			got := sanitise(s, 1000, unicode)
			if len(got) > 1000 || !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
				t.Errorf("%d bytes of %.40q", len(got), got)
			}
			for _, r := range got {
				if !unicode && r > 126 {
					t.Errorf("%q in %.40q", r, got)
				}
			}
			if unicode && len(s) <= 1000 && utf8.ValidString(s) && !strings.ContainsRune(s, 0) && got != s {
				t.Errorf("%.40q became %.40q", s, got)
			}
		}
	})
}

// S27: no counter leaves its column.
func TestS27_CountersSaturate(t *testing.T) {
	t.Parallel()
	for in, want := range map[int]int32{-1: 0, 0: 0, 7: 7, math.MaxInt32: math.MaxInt32, math.MaxInt: math.MaxInt32, math.MinInt: 0} {
		if got := saturate(in); got != want {
			t.Errorf("%d became %d, want %d", in, got, want)
		}
	}
	s := newSetup(t, option{})
	s.insert(t, 100)
	s.Exec(t, `UPDATE {{outbox}} SET attempts = 2147483647, generation = 2147483647, schema_version = 2147483647,
		subject_version = 9223372036854775807, available_at = '-infinity' WHERE id = (SELECT min(id) FROM {{outbox}})`)
	store := s.open(t)
	f, err := fetchAll(t.Context(), store)
	if err != nil || len(f.Rows) != 100 {
		t.Fatalf("%d rows of 100, %v", len(f.Rows), err)
	}
	var marks []relay.Mark
	for _, r := range f.Rows {
		marks = append(marks, relay.Mark{Ref: r.Ref, Held: relay.HeldRetry, Attempts: r.Attempts + 1})
	}
	if out, err := store.Settle(t.Context(), relay.Settlement{Marks: marks}); err != nil || out.Missed != 0 {
		t.Errorf("mark: %+v, %v", out, err)
	}
	if _, err := store.Report(t.Context()); err != nil {
		t.Error(err)
	}
	if out, err := store.Settle(t.Context(), relay.Settlement{Dead: []relay.Death{{Ref: f.Rows[0].Ref, Attempts: math.MaxInt}}, Delivered: refsOf(f.Rows[1:])}); err != nil || out.Missed != 0 || out.History != nil {
		t.Errorf("settle: %+v, %v", out, err)
	}
}

// Headers written by other languages may hold anything that jsonb takes.
func TestFetch_OddHeadersStopNothing(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	s.Exec(t, `INSERT INTO {{outbox}} (topic, headers) VALUES ('t', '{"n": 1, "s": "x", "o": {"a": [true, null]}, "z": null}'), ('t', '{}'), ('t', NULL)`)
	s.Exec(t, `INSERT INTO {{outbox}} (topic, available_at) VALUES ('t', 'infinity')`)
	f, err := fetchAll(t.Context(), s.open(t))
	if err != nil || len(f.Rows) != 3 {
		t.Fatalf("%d rows, %v", len(f.Rows), err)
	}
	h := f.Rows[0].Headers
	if h["n"] != "1" || h["s"] != "x" || h["o"] != `{"a": [true, null]}` || h["z"] != "" {
		t.Errorf("headers %q", h)
	}
	if f.Next != 0 {
		t.Errorf("next %v: an event available at infinity is never due", f.Next)
	}
}
