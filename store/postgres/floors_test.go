package postgres

import (
	"testing"

	"github.com/postrider/postrider/relay"
)

// A floor above an id that an open transaction drew would let the next event of
// the key overtake it.
func TestFloors_S06_NothingIsProvenWhileAWriterIsOpen(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	late, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Rollback()
	const insert = `INSERT INTO {{outbox}} (topic, key) VALUES ('t', 'k') RETURNING id`
	var lower int64
	if err := late.QueryRow(s.names.Expand("postgres", insert)).Scan(&lower); err != nil {
		t.Fatal(err)
	}
	seen := relay.IntID(int64(s.Count(t, insert)))
	for range 3 {
		if _, upTo, err := store.Floors(t.Context(), seen); err != nil || upTo != (relay.RowID{}) {
			t.Fatalf("proven up to %v, %v while a writer is open", upTo, err)
		}
	}
	if err := late.Commit(); err != nil {
		t.Fatal(err)
	}
	floors, upTo, err := store.Floors(t.Context(), seen)
	if err != nil || upTo != seen {
		t.Fatalf("proven up to %v, %v, want %v", upTo, err, seen)
	}
	if floor := floors["t"].Int(); floor > lower {
		t.Errorf("floor %d lies above the late commit %d", floor, lower)
	}
}

// A transaction that never writes the outbox keeps no floor from rising, however
// old it is.
func TestFloors_S03_AnUnrelatedTransactionDoesNotMatter(t *testing.T) {
	t.Parallel()
	s := newSetup(t, option{})
	store := s.open(t)
	old, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback()
	if _, err := old.Exec(`SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	s.insert(t, 3)
	seen := relay.IntID(int64(s.Count(t, `SELECT max(id) FROM {{outbox}}`)))
	if _, upTo, err := store.Floors(t.Context(), seen); err != nil || upTo != seen {
		t.Errorf("proven up to %v, %v, want %v", upTo, err, seen)
	}
}

// A promoted server gives ids again that the lost one had decided, so what was
// being proven there says nothing here.
func TestProof_BeginsAnewOnAnotherServer(t *testing.T) {
	t.Parallel()
	var p proof
	if _, proven := p.decide(1000, map[string]bool{"3/1": true}); proven {
		t.Fatal("proven while a writer is open")
	}
	p.forget() // promotion: 990 is drawn anew, by 4/7, and open
	writers := map[string]bool{"4/7": true}
	for range 2 {
		if upTo, proven := p.decide(1010, writers); proven {
			t.Fatalf("all up to %d proven while a writer is open", upTo)
		}
	}
	if upTo, proven := p.decide(1020, nil); !proven || upTo != 1010 {
		t.Errorf("up to %d, proven %v, when the writer has ended", upTo, proven)
	}
}
