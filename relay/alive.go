package relay

import (
	"context"
	"fmt"
	"sync/atomic"
)

// pulse says whether a pump's loop runs, so that its silence means something:
// before the database was opened, and with competing claims, there is no loop.
type pulse struct{ looping atomic.Bool }

// Alive asks the loop of each database for a sign of life and returns an error
// if one gives none before ctx is done. It needs no database and no broker:
// what it finds is a loop that hangs, which only a restart cures.
func (r *Relay) Alive(ctx context.Context) error {
	for _, p := range r.pumps {
		if !p.looping.Load() {
			continue
		}
		answered := make(chan struct{})
		select {
		case p.commands <- func() { close(answered) }:
			<-answered
		case <-ctx.Done():
			if p.looping.Load() {
				return fmt.Errorf("database %q: the relay's loop does not answer", p.db.Name)
			}
		}
	}
	return nil
}
