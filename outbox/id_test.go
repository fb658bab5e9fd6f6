package outbox

import (
	"encoding/json"
	"sync"
	"testing"
	"time"
)

func TestNewID_IsVersion7OfNow(t *testing.T) {
	before := time.Now().UnixMilli()
	id := NewID()
	if id[6]>>4 != 7 || id[8]>>6 != 0b10 {
		t.Fatalf("%s: version %d, variant %b", id, id[6]>>4, id[8]>>6)
	}
	ms := int64(id[0])<<40 | int64(id[1])<<32 | int64(id[2])<<24 | int64(id[3])<<16 | int64(id[4])<<8 | int64(id[5])
	// Ids run ahead of the clock only when more than 4 million a second are made.
	if ms < before || ms > time.Now().UnixMilli()+1_000 {
		t.Fatalf("%s holds the time %d, it is %d", id, ms, before)
	}
}

func TestNewID_IsMonotonicWhenTheClockStandsStillOrGoesBack(t *testing.T) {
	clock := time.Now()
	last := newID(clock)
	for i := range 20_000 {
		if i%1_000 == 0 {
			clock = clock.Add(-time.Minute)
		}
		id := newID(clock)
		if id.String() <= last.String() {
			t.Fatalf("id %s after %s", id, last)
		}
		last = id
	}
}

func TestNewID_IsUniqueAcrossGoroutines(t *testing.T) {
	const goroutines, each = 8, 5_000
	var mu sync.Mutex
	seen := make(map[ID]bool, goroutines*each)
	var wg sync.WaitGroup
	for range goroutines {
		wg.Add(1)
		go func() {
			defer wg.Done()
			ids := make([]ID, each)
			for i := range ids {
				ids[i] = NewID()
			}
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				seen[id] = true
			}
		}()
	}
	wg.Wait()
	if len(seen) != goroutines*each {
		t.Fatalf("%d distinct ids of %d", len(seen), goroutines*each)
	}
}

func TestParseID(t *testing.T) {
	const text = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, s := range []string{text, "01890A5D-AC96-774B-BCCE-B302099A8057"} {
		id, err := ParseID(s)
		if err != nil || id.String() != text {
			t.Errorf("ParseID(%q) = %s, %v", s, id, err)
		}
	}
	for _, s := range []string{
		"", "x", text[:35], text + "0", "{" + text + "}", "urn:uuid:" + text,
		"01890a5dac96774bbcceb302099a8057", "01890a5d-ac96-774b-bcce-b302099a805g",
		"01890a5d_ac96_774b_bcce_b302099a8057", "018-0a5d-ac96-774b-bcce-b302099a8057",
	} {
		if id, err := ParseID(s); err == nil {
			t.Errorf("ParseID(%q) = %s, want an error", s, id)
		}
	}
}

func TestID_IsAStringInJSON(t *testing.T) {
	type doc struct {
		ID ID `json:"id"`
	}
	want := doc{NewID()}
	text, err := json.Marshal(want)
	if err != nil || string(text) != `{"id":"`+want.ID.String()+`"}` {
		t.Fatalf("%s, %v", text, err)
	}
	var got doc
	if err := json.Unmarshal(text, &got); err != nil || got != want {
		t.Fatalf("%v, %v", got, err)
	}
	if err := json.Unmarshal([]byte(`{"id":"x"}`), &got); err == nil {
		t.Fatal("a malformed id was read")
	}
	if !(ID{}).IsZero() || want.ID.IsZero() {
		t.Fatal("IsZero")
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("01890a5d-ac96-774b-bcce-b302099a8057")
	f.Add("00000000-0000-0000-0000-00000000000g")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			return
		}
		again, err := ParseID(id.String())
		if err != nil || again != id {
			t.Fatalf("%q became %s, then %s, %v", s, id, again, err)
		}
	})
}
