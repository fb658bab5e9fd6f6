package postgres

import (
	"context"
	"maps"
	"sync"

	"github.com/postrider/postrider/relay"
)

// # Proving a floor
//
// An id is drawn while its statement runs, and a statement that writes the
// outbox holds a ROW EXCLUSIVE lock on it from before its first row until its
// transaction ends. So the transactions that may still commit an id up to the
// highest one seen are among those that hold that lock now; once each of them
// has ended, all those ids are decided, and what is not visible then never will
// be. Neither xmin nor a row's xid would do: an id is drawn before its
// transaction has an xid.
//
// A proof takes as long as the longest of those transactions. Nobody waits: each
// call looks again at who is left.
type proof struct {
	mu      sync.Mutex
	seen    int64
	writers map[string]bool // virtual transactions that were writing then
}

// Floors implements relay.Floorer.
func (s *Store) Floors(ctx context.Context, seen relay.RowID) (map[string]relay.RowID, relay.RowID, error) {
	if s.opened.Load() == nil {
		return nil, relay.RowID{}, errNotOpen
	}
	writers := map[string]bool{}
	look := statement{sql: s.sql.writers, row: func(v [][]byte) error {
		writers[string(v[0])] = true
		return nil
	}}
	if err := s.run(ctx, nil, look); err != nil {
		return nil, relay.RowID{}, wrap("floors", err)
	}
	upTo, proven := s.proof.decide(seen.Int(), writers)
	if !proven {
		return nil, relay.RowID{}, nil
	}
	floors := map[string]relay.RowID{}
	read := statement{sql: s.sql.floors, params: []param{int8Param(upTo)}, row: func(v [][]byte) error {
		floors[string(v[0])] = relay.IntID(int8Value(v[1]))
		return nil
	}}
	if err := s.run(ctx, nil, read); err != nil {
		return nil, relay.RowID{}, wrap("floors", err)
	}
	return floors, relay.IntID(upTo), nil
}

// forget begins anew: another server may give ids again that are decided on the
// one before.
func (p *proof) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen, p.writers = 0, nil
}

// decide takes in who writes now. It returns the id up to which all is decided,
// if that is proven, and then begins the next proof.
func (p *proof) decide(seen int64, writers map[string]bool) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writers == nil || seen < p.seen { // the first, or another server's ids
		p.seen, p.writers = seen, writers
	} else {
		maps.DeleteFunc(p.writers, func(tx string, _ bool) bool { return !writers[tx] })
	}
	if len(p.writers) > 0 {
		return 0, false
	}
	upTo := p.seen
	p.seen, p.writers = seen, writers
	return upTo, true
}
