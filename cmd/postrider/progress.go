package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/postrider/postrider/relay"
)

// progress shows how a drain goes on, on a terminal only, in one line that it
// removes at the end. The returned function stops it.
func (c *command) progress(r *relay.Relay) (stop func()) {
	if !isTerminal(c.stderr) {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				fmt.Fprint(c.stderr, "\r\x1b[K")
				return
			case <-tick.C:
				var delivered, pending int64
				for _, d := range r.Status(ctx).Databases {
					delivered += d.Counts.Delivered
					if d.Report != nil {
						pending += d.Report.PendingEvents
					}
				}
				fmt.Fprintf(c.stderr, "\r\x1b[Kdelivered %d, pending %d", delivered, pending)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// isTerminal reports whether a person is likely to watch the output.
func isTerminal(out any) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
