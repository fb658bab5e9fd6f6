package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
)

// Which history is this?
//
// A relay that remembers rows of one file must forget them when it comes to
// another: ids are small numbers and mean something else there. Two things
// betray a change:
//
//	the name leads to another file       a copy was renamed over it
//	the outbox's sequence is smaller     a backup was restored into the file,
//	                                     or the tables were made anew
//
// Each raises a counter that is part of the identity. A restore that is older
// and has grown past the sequence in the meantime stays unseen, and does no
// harm: each settle names event ids too.
func (s *Store) identity() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.cfg.file()
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	return fmt.Sprintf("%s#%d", name, s.files)
}

// seen is the sequence that a snapshot begun from now on must at least have.
func (s *Store) seen() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.highest
}

// witness looks at the sequence in the caller's snapshot. before is what seen
// returned before the snapshot began: two snapshots at once may well be read
// in the wrong order.
func (s *Store) witness(ctx context.Context, tx *sql.Tx, before int64) (int64, error) {
	seq, err := s.sequence(ctx, tx)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < before {
		s.files++
		s.highest = seq
	}
	s.highest = max(s.highest, seq)
	return seq, nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// sequence is the highest id that was ever drawn, 0 before the first.
func (s *Store) sequence(ctx context.Context, q querier) (int64, error) {
	var seq int64
	err := q.QueryRowContext(ctx, selectSequence, s.cfg.Names.Table).Scan(&seq)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seq, err
}
