package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/store/sqlite"
)

// stallLine is what a relay process prints when it has published and does not
// settle: the moment in which it is killed.
const stallLine = "published, not settled"

// servingLine is what it prints when it serves.
const servingLine = "serving"

// relays are the two relay processes.
type relays struct {
	cfg       Config
	file, url string
	say       func(string, ...any)
	mu        sync.Mutex
	running   []*exec.Cmd
	serving   chan *exec.Cmd
	stalled   chan *exec.Cmd
}

// start runs a relay that will stall at the settle of the n-th event, and when it
// serves a second one, which stands by: a SQLite outbox has one lane.
func (r *relays) start(ctx context.Context, n int) error {
	r.serving, r.stalled = make(chan *exec.Cmd, 8), make(chan *exec.Cmd, 1)
	if err := r.run(ctx, max(n, 1)); err != nil {
		return err
	}
	select {
	case <-r.serving:
		return r.run(ctx, 0)
	case <-time.After(patience):
		return errors.New("relay does not serve")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run starts a relay process. It stalls once if stall is above 0.
func (r *relays) run(ctx context.Context, stall int) error {
	cmd := r.cfg.Relay(ctx, r.file, r.url, stall)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a relay: %w", err)
	}
	r.mu.Lock()
	r.running = append(r.running, cmd)
	r.mu.Unlock()
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			switch lines.Text() {
			case servingLine:
				r.serving <- cmd
			case stallLine:
				r.stalled <- cmd
			}
		}
	}()
	return nil
}

// killBetween kills the relay that has published and not settled, and starts it
// anew.
func (r *relays) killBetween(ctx context.Context) error {
	select {
	case cmd := <-r.stalled:
		r.say("killing relay %d between publish and settle (SIGKILL)", cmd.Process.Pid)
		if err := cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill a relay: %w", err)
		}
		cmd.Wait() //nolint:errcheck // it was killed
		r.forget(cmd)
		r.say("restarting it; the other one takes over when the lease of %v is over", lease)
		return r.run(ctx, 0)
	case <-time.After(patience):
		return errors.New("no relay published anything")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *relays) forget(cmd *exec.Cmd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.running {
		if other == cmd {
			r.running = append(r.running[:i], r.running[i+1:]...)
			return
		}
	}
}

// stop ends what still runs, and waits for it.
func (r *relays) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, cmd := range r.running {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	}
	r.running = nil
}

// Serve is what a relay process of the demo runs. It stops at its first settle
// after stall delivered events, prints stallLine and waits to be killed; with
// stall 0 it serves until ctx is done.
func Serve(ctx context.Context, out io.Writer, file, url string, stall int) error {
	inner, err := sqlite.New(sqlite.Config{URL: file, PublishTimeout: publishTimeout})
	if err != nil {
		return err
	}
	defer inner.Close() //nolint:errcheck // the process ends
	broker, err := nats.New(nats.Config{URL: url})
	if err != nil {
		return err
	}
	defer broker.Close(ctx) //nolint:errcheck // the process ends
	r, err := relay.New(relay.Config{
		Databases:      []relay.Database{{Name: "app", Store: &stallingStore{Store: inner, out: out, after: stall}}},
		Brokers:        map[string]relay.Broker{"default": broker},
		Routes:         []relay.Route{{}},
		Lease:          lease,
		PublishTimeout: publishTimeout,
		Logger:         slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// stallingStore is a SQLite store that does not settle at one moment.
type stallingStore struct {
	*sqlite.Store
	out      io.Writer
	after    int
	settled  int
	announce sync.Once
}

// Fetch tells that this relay serves.
func (s *stallingStore) Fetch(ctx context.Context, q relay.FetchQuery) (relay.Fetched, error) {
	s.announce.Do(func() { fmt.Fprintln(s.out, servingLine) })
	return s.Store.Fetch(ctx, q)
}

// Settle waits for the process's end where it is asked to.
func (s *stallingStore) Settle(ctx context.Context, batch relay.Settlement) (relay.Settled, error) {
	s.settled += len(batch.Delivered)
	if s.after > 0 && s.settled >= s.after && len(batch.Delivered) > 0 {
		fmt.Fprintln(s.out, stallLine)
		select {} // killed here
	}
	return s.Store.Settle(ctx, batch)
}
