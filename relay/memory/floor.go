package memory

import (
	"context"

	"github.com/postrider/postrider/relay"
)

// Floors implements [relay.Floorer].
func (s *Store) Floors(ctx context.Context, seen relay.RowID) (map[string]relay.RowID, relay.RowID, error) {
	var upTo relay.RowID
	floors := map[string]relay.RowID{}
	_, err := call(ctx, s, "Floors", func() (none, error) {
		for tx := range s.open {
			if len(tx.rows) > 0 && tx.rows[0].ID.Int() <= seen.Int() {
				return none{}, nil
			}
		}
		upTo = seen
		for _, r := range s.tables.rows {
			if _, known := floors[r.Topic]; !known && r.ready() {
				floors[r.Topic] = relay.IntID(min(r.ID.Int(), seen.Int()+1))
			}
		}
		return none{}, nil
	})
	if err != nil {
		return nil, relay.RowID{}, err
	}
	return floors, upTo, nil
}
